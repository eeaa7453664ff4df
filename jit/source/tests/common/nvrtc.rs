//! NVIDIA's compiler of CUDA C, from the folder of its Python package.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

type Program = *mut c_void;

/// The compiler.
pub struct Nvrtc {
    library: Library,
    _builtins: Library,
}

/// A file in a folder by the beginning of its name.
fn named(folder: &Path, name: &str) -> PathBuf {
    let files = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths = files.map(|file| file.unwrap().path());
    let fits = |path: &PathBuf| {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        file.starts_with(name)
    };
    paths.find(fits).unwrap_or_else(|| panic!("no {name} in {}", folder.display()))
}

impl Nvrtc {
    /// Opens the libraries in a folder.
    pub fn open(folder: &Path) -> Nvrtc {
        let open = |name| {
            // SAFETY: the libraries are NVIDIA's, whose initialisers may run here.
            unsafe { Library::open(Some(named(folder, name)), RTLD_NOW | RTLD_GLOBAL) }.unwrap()
        };
        let _builtins = open("libnvrtc-builtins.so");
        Nvrtc { library: open("libnvrtc.so"), _builtins }
    }

    fn read(&self, program: Program, what: &str) -> String {
        let names = [format!("nvrtcGet{what}Size\0"), format!("nvrtcGet{what}\0")];
        let mut size = 0_usize;
        // SAFETY: both functions have these parameters, and the second one writes as many bytes as the first one says.
        unsafe {
            let of = self
                .library
                .get::<unsafe extern "C" fn(Program, *mut usize) -> c_int>(names[0].as_bytes());
            assert_eq!(of.unwrap()(program, &raw mut size), 0);
            let mut bytes = vec![0_u8; size];
            let text = self
                .library
                .get::<unsafe extern "C" fn(Program, *mut c_char) -> c_int>(names[1].as_bytes());
            assert_eq!(text.unwrap()(program, bytes.as_mut_ptr().cast()), 0);
            String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
        }
    }

    /// Compiles a text to PTX.
    pub fn compile(&self, text: &str, arch: &str, options: &[&str]) -> Result<String, String> {
        type Create = unsafe extern "C" fn(
            *mut Program,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        ) -> c_int;
        type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
        type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
        let source = CString::new(text).unwrap();
        let arch = format!("--gpu-architecture={arch}");
        let options: Vec<CString> = [&arch[..]]
            .into_iter()
            .chain(options.iter().copied())
            .map(|option| CString::new(option).unwrap())
            .collect();
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        let mut program: Program = std::ptr::null_mut();
        // SAFETY: the functions have these parameters; the texts live through the calls.
        unsafe {
            let create = self.library.get::<Create>(b"nvrtcCreateProgram\0").unwrap();
            let (none, no_names) = (std::ptr::null(), std::ptr::null());
            let name = c"kernels.cu".as_ptr();
            assert_eq!(create(&raw mut program, source.as_ptr(), name, 0, none, no_names), 0);
            let compile = self.library.get::<Compile>(b"nvrtcCompileProgram\0").unwrap();
            let status = compile(program, pointers.len() as c_int, pointers.as_ptr());
            let result = match status {
                0 => Ok(self.read(program, "PTX")),
                _ => Err(self.read(program, "ProgramLog")),
            };
            let destroy = self.library.get::<Destroy>(b"nvrtcDestroyProgram\0").unwrap();
            destroy(&raw mut program);
            result
        }
    }
}
