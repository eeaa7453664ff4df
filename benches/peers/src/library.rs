//! Reflex through its C interface, so that any build of it can be measured: the child process that
//! `--serve` starts, and its other end.

use std::ffi::{CStr, CString, c_char, c_void};
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::Command;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use libloading::Library;
use reflex::{Array, Engine, Feed, Mode};

use crate::Case;
use crate::engines::{Native, Peer, Result};
use crate::remote::Remote;

/// `ReflexValue`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Value {
    type_index: i32,
    small_len: u32,
    payload: u64,
}

const NONE: Value = Value { type_index: 0, small_len: 0, payload: 0 };

/// `ReflexEngineOptions`.
#[repr(C)]
struct EngineOptions {
    device: *const c_char,
    threads: u32,
    cache_bytes: u64,
    kernel_cache: *const c_char,
    tier: *const c_char,
    precision: *const c_char,
    optimize_for: *const c_char,
}

/// `ReflexDType`.
#[repr(C)]
struct ElementType {
    code: u8,
    bits: u8,
    lanes: u16,
}

type Status = i32;

/// The functions of include/reflex.h that calls need.
struct Api {
    library: Library,
    call: unsafe extern "C" fn(*mut c_void, u32, *const Value, i32, *mut Value) -> Status,
    free: unsafe extern "C" fn(*mut Value),
}

impl Api {
    fn open(path: &Path) -> Result<Api> {
        // SAFETY: the library is a build of Reflex, named by who runs the benchmark.
        let library = unsafe { Library::new(path)? };
        // SAFETY: the signatures are those of include/reflex.h, whose layout does not change.
        let (call, free) = unsafe {
            (function(&library, "reflex_call_index")?, function(&library, "reflex_free")?)
        };
        Ok(Api { library, call, free })
    }

    /// A function of the header.
    ///
    /// # Safety
    /// `F` is the type that include/reflex.h gives the function.
    unsafe fn get<F: Copy>(&self, name: &str) -> Result<F> {
        // SAFETY: the caller passes the function's type, see `# Safety`.
        unsafe { function(&self.library, name) }
    }

    fn check(&self, status: Status) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the signature of the header; the text lives until the thread's next failure.
        let message = unsafe {
            let message: unsafe extern "C" fn() -> *const c_char =
                self.get("reflex_error_message")?;
            CStr::from_ptr(message()).to_string_lossy().into_owned()
        };
        Err(message.into())
    }
}

/// Names that functions had in earlier builds, whose signatures are the same.
const EARLIER: [(&str, &str); 2] =
    [("reflex_call_index", "reflex_call_number"), ("reflex_function_index", "reflex_find")];

/// A function of a library, by its name now or an earlier one.
///
/// # Safety
/// `F` is the type of the function.
unsafe fn function<F: Copy>(library: &Library, name: &str) -> Result<F> {
    // SAFETY: the caller passes the function's type, see `# Safety`.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    let error = match found {
        Ok(symbol) => return Ok(*symbol),
        Err(error) => error,
    };
    let earlier = EARLIER.iter().find(|(now, _)| *now == name).ok_or(error)?.1;
    // SAFETY: the earlier function has the same type.
    Ok(*unsafe { library.get::<F>(earlier.as_bytes()) }?)
}

/// An open session with its feeds as arguments in the order of the model's inputs.
struct Session {
    api: Api,
    session: *mut c_void,
    main: u32,
    feeds: Vec<Vec<Value>>,
}

impl Session {
    fn open(
        library: &Path,
        model: &Path,
        feeds: &[Feed],
        threads: usize,
        mode: Mode,
    ) -> Result<Session> {
        let api = Api::open(library)?;
        let options = EngineOptions {
            device: null(),
            threads: u32::try_from(threads)?,
            cache_bytes: 0,
            kernel_cache: null(),
            tier: null(),
            precision: null(),
            optimize_for: null(),
        };
        let path = CString::new(model.to_str().ok_or("a path that is not UTF-8")?)?;
        let number = match mode {
            Mode::Tiered => 0,
            Mode::Bytecode => 1,
            Mode::Compiled => 2,
        };
        let [mut engine, mut program, mut session] = [null_mut::<c_void>(); 3];
        let mut main = 0;
        // SAFETY: the signatures of include/reflex.h; every pointer outlives the call it is for.
        unsafe {
            type New = unsafe extern "C" fn(*const EngineOptions, *mut *mut c_void) -> Status;
            type Load =
                unsafe extern "C" fn(*mut c_void, *const c_char, *mut *mut c_void) -> Status;
            type Open = unsafe extern "C" fn(*mut c_void, i32, *mut *mut c_void) -> Status;
            type Find = unsafe extern "C" fn(*mut c_void, *const c_char, *mut u32) -> Status;
            api.check(api.get::<New>("reflex_engine_new")?(&options, &mut engine))?;
            let load = api.get::<Load>("reflex_engine_load")?;
            api.check(load(engine, path.as_ptr(), &mut program))?;
            let open = api.get::<Open>("reflex_session_new")?;
            api.check(open(program, number, &mut session))?;
            let find = api.get::<Find>("reflex_function_index")?;
            api.check(find(session, c"main".as_ptr(), &mut main))?;
        }
        let inputs = Engine::info(model)?.inputs;
        let arguments = |feed: &Feed| {
            let arrays = inputs.iter().map(|i| feed.get(&i.name).ok_or("an input without a value"));
            arrays.map(|array| tensor(&api, array?)).collect::<Result<Vec<Value>>>()
        };
        let feeds = feeds.iter().map(arguments).collect::<Result<_>>()?;
        Ok(Session { api, session, main, feeds })
    }

    /// Calls every feed until the library compiles nothing more of it, twice.
    fn compile_what_is_hot(&mut self) -> Result<()> {
        type WarmUp =
            unsafe extern "C" fn(*mut c_void, *const c_char, *const Value, i32, *mut u64) -> Status;
        for feed in self.feeds.iter().chain(&self.feeds) {
            // SAFETY: the signature of the header; session and arguments are alive.
            let status = unsafe {
                let warm_up = self.api.get::<WarmUp>("reflex_warm_up")?;
                let (args, count) = (feed.as_ptr(), i32::try_from(feed.len())?);
                warm_up(self.session, c"main".as_ptr(), args, count, null_mut())
            };
            self.api.check(status)?;
        }
        Ok(())
    }
}

impl Native for Session {
    fn feeds(&self) -> usize {
        self.feeds.len()
    }

    fn run(&mut self, feed: usize) -> Result<()> {
        let (args, mut result) = (&self.feeds[feed], NONE);
        // SAFETY: the session and the arguments are alive, and the result is freed once.
        let status = unsafe {
            let count = args.len() as i32;
            let status =
                (self.api.call)(self.session, self.main, args.as_ptr(), count, &mut result);
            (self.api.free)(&mut result);
            status
        };
        self.api.check(status)
    }
}

/// A tensor with memory of its own, which lives as long as the process.
fn tensor(api: &Api, array: &Array) -> Result<Value> {
    type Make =
        unsafe extern "C" fn(ElementType, *const i64, u32, *const c_void, *mut Value) -> Status;
    let dtype =
        ElementType { code: array.dtype.code, bits: array.dtype.bits, lanes: array.dtype.lanes };
    let (count, mut value) = (u32::try_from(array.shape.len())?, NONE);
    // SAFETY: the signature of the header; the array has as many bytes as its shape says.
    let status = unsafe {
        let make = api.get::<Make>("reflex_tensor")?;
        make(dtype, array.shape.as_ptr(), count, array.data.as_ptr().cast(), &mut value)
    };
    api.check(status)?;
    Ok(value)
}

/// The child process: loads the model, compiles what is hot, then answers durations with calls.
pub fn serve(
    library: &Path,
    model: &Path,
    feeds: &[Feed],
    threads: usize,
    mode: Mode,
) -> Result<()> {
    let start = Instant::now();
    let mut session = Session::open(library, model, feeds, threads, mode)?;
    session.compile_what_is_hot()?;
    println!("{}", start.elapsed().as_secs_f64());
    for line in std::io::stdin().lock().lines() {
        let calls = session.round(Duration::from_secs_f64(line?.parse()?))?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&calls)?)?;
    }
    Ok(())
}

/// Starts such a process; kernels are compiled by the `reflex-codegen` next to the library, if
/// there is one.
pub fn open(library: &Path, case: &Case, threads: usize, mode: Mode) -> Result<Remote<f64>> {
    let library = library.canonicalize().map_err(|e| format!("{}: {e}", library.display()))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--threads", &threads.to_string(), "--mode", &mode.to_string(), "--serve"]);
    command.args([&library, &case.model, &case.npz]);
    let folders = library.ancestors().skip(1).take(2);
    if let Some(codegen) = folders.map(|f| f.join("reflex-codegen")).find(|path| path.is_file()) {
        command.env("REFLEX_CODEGEN", codegen);
    }
    Remote::start(&mut command)
}
