//! The code generator as another process: `reflex-codegen`.
//!
//! Processes are started when a request finds none idle, kept for the next one, and killed
//! when the client is dropped. One that dies takes only its request with it: the answer names
//! the function and the end of what the process wrote to its standard error. So does one that
//! does not answer in time.
//!
//! Decision: docs/decisions/0017-compiler-process.md

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;
use reflex_tir::codegen::{Codegen, Request, Response};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process};

use crate::LowerError;

/// Name of the program.
pub const PROGRAM: &str = "reflex-codegen";
/// Longest message taken, in bytes.
const MAX_MESSAGE: u64 = 1 << 30;
/// The end of the standard error that an error quotes, in bytes.
const STDERR_TAIL: u64 = 2000;
/// The variable that sets how long a request may take.
const TIMEOUT_VARIABLE: &str = "REFLEX_CODEGEN_TIMEOUT";
/// The time that a request may take by default: many times what the slowest kernels need.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Client of `reflex-codegen` processes. The program is needed by the first kernel that is compiled.
#[derive(Debug)]
pub struct ProcessCodegen {
    /// The program, or the reason why there is none.
    program: Result<Program, NoProgram>,
    idle: Mutex<Vec<Worker>>,
}

/// The reason why there is no program.
#[derive(Clone, Debug)]
enum NoProgram {
    /// None is installed, and none was asked for.
    NotInstalled(String),
    /// The one that there is, or that is named, cannot be used.
    Unusable(String),
}

impl NoProgram {
    fn message(&self) -> &str {
        match self {
            NoProgram::NotInstalled(message) | NoProgram::Unusable(message) => message,
        }
    }
}

/// A program file.
#[derive(Debug)]
struct Program {
    path: PathBuf,
    /// Length and time of change, which tell builds apart.
    identity: String,
    /// The time that a request may take; `None` is without limit.
    timeout: Option<Duration>,
}

#[derive(Debug)]
struct Worker {
    child: Child,
    /// A socket, not a pipe: writing to a process that has died raises no `SIGPIPE`, which ends hosts
    /// in C.
    input: UnixStream,
    output: ChildStdout,
    errors: File,
}

impl ProcessCodegen {
    /// The program named by `$REFLEX_CODEGEN`, or in one of `folders`, or on the search path. None
    /// is no error until a kernel has to be compiled.
    pub fn find(folders: &[PathBuf]) -> ProcessCodegen {
        let program = match std::env::var_os("REFLEX_CODEGEN").filter(|p| !p.is_empty()) {
            Some(path) => Program::at(PathBuf::from(path)).map_err(NoProgram::Unusable),
            None => Program::find(folders),
        };
        ProcessCodegen { program, idle: Mutex::new(vec![]) }
    }

    /// No program, for this reason.
    pub fn absent(reason: String) -> ProcessCodegen {
        let program = Err(NoProgram::NotInstalled(reason));
        ProcessCodegen { program, idle: Mutex::new(vec![]) }
    }

    /// The program at a path.
    pub fn at(path: PathBuf) -> Result<ProcessCodegen, LowerError> {
        let program = Ok(Program::at(path).map_err(LowerError::codegen)?);
        Ok(ProcessCodegen { program, idle: Mutex::new(vec![]) })
    }

    /// Tells builds of the program apart, for [`crate::kernel_cache::KernelCache::new`]. `None` if
    /// there is no program.
    pub fn identity(&self) -> Option<&str> {
        self.program.as_ref().ok().map(|program| program.identity.as_str())
    }

    /// The reason why no program is installed; `None` if there is one, or one is named.
    pub fn absence(&self) -> Option<&str> {
        match &self.program {
            Err(NoProgram::NotInstalled(message)) => Some(message),
            _ => None,
        }
    }

    fn worker(&self, program: &Program) -> io::Result<Worker> {
        let idle = self.idle.lock().pop();
        match idle {
            Some(worker) => Ok(worker),
            None => Worker::start(&program.path),
        }
    }
}

impl Program {
    fn find(folders: &[PathBuf]) -> Result<Program, NoProgram> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = folders.iter().cloned().chain(std::env::split_paths(&path));
        match places.map(|dir| dir.join(PROGRAM)).find(|p| p.is_file()) {
            Some(path) => Program::at(path).map_err(NoProgram::Unusable),
            None => {
                let folders: Vec<_> = folders.iter().map(|f| f.display().to_string()).collect();
                Err(NoProgram::NotInstalled(format!(
                    "{PROGRAM}, which compiles kernels, was found neither in {} nor on the search \
                     path; install it, or name it in REFLEX_CODEGEN",
                    folders.join(", ")
                )))
            }
        }
    }

    fn at(path: PathBuf) -> Result<Program, String> {
        let bad = |e: io::Error| format!("{}: {e}", path.display());
        let data = fs::metadata(&path).map_err(bad)?;
        let time = data.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        let identity = format!("{} {}", data.len(), time.map_or(0, |t| t.as_nanos()));
        let timeout = timeout(std::env::var(TIMEOUT_VARIABLE).ok().as_deref())?;
        Ok(Program { path, identity, timeout })
    }
}

/// The answer to a request that got none.
fn failed(request: &Request, message: String) -> Response {
    let names: Vec<&str> = request.funcs.iter().map(|f| f.name.as_str()).collect();
    Response::Failed { func: names.join(", "), message }
}

impl Codegen for ProcessCodegen {
    fn compile(&self, request: &Request) -> Response {
        let program = match &self.program {
            Ok(program) => program,
            Err(missing) => return failed(request, missing.message().to_owned()),
        };
        let path = program.path.display();
        let mut worker = match self.worker(program) {
            Ok(worker) => worker,
            Err(error) => return failed(request, format!("{path}: cannot be started: {error}")),
        };
        match worker.exchange_within(request, program.timeout) {
            Ok(response) => {
                self.idle.lock().push(worker);
                response
            }
            Err(Failure::Process(error)) => {
                failed(request, format!("{path}: {}", worker.post_mortem(&error)))
            }
            Err(Failure::Timeout(limit)) => {
                let seconds = limit.as_secs_f64();
                let reason = format!(
                    "{path}: no answer within {seconds} s, so the process was ended; \
                     {TIMEOUT_VARIABLE} sets the limit in seconds, or `off`"
                );
                failed(request, reason)
            }
        }
    }
}

/// Why a request has no answer.
enum Failure {
    Process(io::Error),
    /// None came within this time.
    Timeout(Duration),
}

/// The limit that a value of [`TIMEOUT_VARIABLE`] asks for.
fn timeout(value: Option<&str>) -> Result<Option<Duration>, String> {
    let Some(text) = value.filter(|text| !text.is_empty()) else { return Ok(Some(TIMEOUT)) };
    if text == "off" {
        return Ok(None);
    }
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        Some(limit) => Ok(Some(limit)),
        None => Err(format!("{TIMEOUT_VARIABLE}={text}: expected a number of seconds, or `off`")),
    }
}

impl Worker {
    fn start(program: &Path) -> io::Result<Worker> {
        // In memory, since folders for temporary files may be missing or read-only.
        let errors = File::from(memfd_create("reflex-codegen stderr", MemfdFlags::CLOEXEC)?);
        let (input, other_end) = UnixStream::pair()?;
        let mut child = Command::new(program)
            .stdin(OwnedFd::from(other_end))
            .stdout(Stdio::piped())
            .stderr(errors.try_clone()?)
            .spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
        Ok(Worker { child, input, output, errors })
    }

    /// As [`Worker::exchange`], but ends the process when there is no answer within `limit`.
    fn exchange_within(
        &mut self,
        request: &Request,
        limit: Option<Duration>,
    ) -> Result<Response, Failure> {
        let Some(limit) = limit else { return self.exchange(request).map_err(Failure::Process) };
        let process = Pid::from_child(&self.child);
        let (answered, waiting) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let watch = move || {
                let late = waiting.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
                // It has not been waited for, so the number is still its own. An error says that
                // it has just ended by itself.
                late.then(|| kill_process(process, Signal::KILL)).is_some()
            };
            let watchdog = thread::Builder::new().spawn_scoped(scope, watch);
            let watchdog = watchdog.map_err(Failure::Process)?;
            let answer = self.exchange(request);
            drop(answered);
            match (answer, watchdog.join()) {
                (Ok(answer), Ok(false)) => Ok(answer),
                (Err(error), Ok(false)) => Err(Failure::Process(error)),
                (_, _) => Err(Failure::Timeout(limit)),
            }
        })
    }

    fn exchange(&mut self, request: &Request) -> io::Result<Response> {
        let message = postcard::to_stdvec(request).map_err(io::Error::other)?;
        self.input.write_all(&(message.len() as u64).to_le_bytes())?;
        self.input.write_all(&message)?;
        self.input.flush()?;
        let mut length = [0; 8];
        self.output.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        if length > MAX_MESSAGE {
            return Err(io::Error::other(format!("an answer of {length} bytes")));
        }
        let mut answer = vec![];
        (&mut self.output).take(length).read_to_end(&mut answer)?;
        postcard::from_bytes(&answer).map_err(io::Error::other)
    }

    /// Ends the process and says how it went.
    fn post_mortem(&mut self, error: &io::Error) -> String {
        let _ = self.child.kill();
        let status = match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let mut text = format!("the process failed ({error}; {status})");
        let quote = self.stderr_tail().unwrap_or_default();
        if !quote.trim().is_empty() {
            text.push_str(": ");
            text.push_str(quote.trim());
        }
        text
    }

    fn stderr_tail(&mut self) -> io::Result<String> {
        let length = self.errors.seek(SeekFrom::End(0))?;
        self.errors.seek(SeekFrom::Start(length.saturating_sub(STDERR_TAIL)))?;
        let mut bytes = vec![];
        self.errors.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail only when the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use reflex_tir::PrimFunc;
    use reflex_tir::codegen::{CpuTarget, OptLevel, PROTOCOL, Target};

    use super::*;

    fn request() -> Request {
        let target = Target::Cpu(CpuTarget {
            triple: String::new(),
            features: Default::default(),
            vector_bytes: 16,
            l1d_bytes: 0,
            l2_bytes: 0,
        });
        let funcs = vec![PrimFunc::new("conv7")];
        Request { protocol: PROTOCOL, funcs, target, opt: OptLevel::O0, want_asm: false }
    }

    /// A code generator that is a shell script.
    fn script(folder: &Path, text: &str) -> ProcessCodegen {
        let path = folder.join("codegen");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        ProcessCodegen::at(path).unwrap()
    }

    #[test]
    fn a_process_that_hangs_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let limit = Some(Duration::from_millis(50));
        let mut codegen = script(folder.path(), "exec sleep 3600");
        codegen.program.as_mut().unwrap().timeout = limit;
        let Response::Failed { func, message } = codegen.compile(&request()) else {
            panic!("no answer is a failure");
        };
        assert_eq!(func, "conv7");
        assert!(message.contains("no answer within 0.05 s"), "{message}");
        assert!(message.contains(TIMEOUT_VARIABLE), "{message}");
    }

    #[test]
    fn limits_are_seconds_or_off() {
        assert_eq!(timeout(None).unwrap(), Some(TIMEOUT));
        assert_eq!(timeout(Some("")).unwrap(), Some(TIMEOUT));
        assert_eq!(timeout(Some("2.5")).unwrap(), Some(Duration::from_millis(2500)));
        assert_eq!(timeout(Some("off")).unwrap(), None);
        for bad in ["soon", "-1", "0", "nan", "1e300"] {
            let message = timeout(Some(bad)).unwrap_err();
            assert!(message.starts_with(&format!("REFLEX_CODEGEN_TIMEOUT={bad}: ")), "{message}");
        }
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = ProcessCodegen::at("/nonexistent/reflex-codegen".into()).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/reflex-codegen"), "{error}");
    }

    #[test]
    fn no_program_is_an_error_once_a_kernel_is_compiled() {
        let codegen = ProcessCodegen { program: Program::find(&[]), idle: Mutex::new(vec![]) };
        if let Some(identity) = codegen.identity() {
            // It is installed on the search path.
            return assert!(!identity.is_empty());
        }
        assert!(codegen.absence().is_some_and(|reason| reason.contains("REFLEX_CODEGEN")));
        let Response::Failed { func, message } = codegen.compile(&request()) else {
            panic!("nothing compiles");
        };
        assert_eq!(func, "conv7");
        assert!(message.contains("REFLEX_CODEGEN"), "{message}");
    }

    #[test]
    fn a_folder_is_searched_and_builds_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let folders = ["other", "own"].map(|name| dir.path().join(name));
        fs::create_dir(&folders[1]).unwrap();
        let path = folders[1].join(PROGRAM);
        fs::write(&path, "one").unwrap();
        let one = Program::find(&folders).unwrap();
        assert_eq!(one.path, path);
        fs::write(&path, "another").unwrap();
        assert_ne!(Program::find(&folders).unwrap().identity, one.identity);
    }

    #[test]
    fn a_crash_names_the_function_and_quotes_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let codegen = script(folder.path(), "echo boom >&2\nkill -ABRT $$");
        let Response::Failed { func, message } = codegen.compile(&request()) else {
            panic!("a crash is a failure");
        };
        assert_eq!(func, "conv7");
        assert!(message.contains("boom"), "{message}");
    }
}
