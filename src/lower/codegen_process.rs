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
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
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
const LIMIT: u64 = 1 << 30;
/// The end of the standard error that an error quotes, in bytes.
const QUOTE: u64 = 2000;
/// The variable that sets how long a request may take.
const TIMEOUT_VARIABLE: &str = "REFLEX_CODEGEN_TIMEOUT";
/// The time that a request may take by default: many times what the slowest kernels need.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Client of `reflex-codegen` processes.
#[derive(Debug)]
pub struct ProcessCodegen {
    program: PathBuf,
    identity: String,
    /// The time that a request may take; `None` is without limit.
    timeout: Option<Duration>,
    idle: Mutex<Vec<Worker>>,
}

#[derive(Debug)]
struct Worker {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    errors: File,
}

impl ProcessCodegen {
    /// The program named by `$REFLEX_CODEGEN`, or next to the current executable, or on the
    /// search path.
    pub fn find() -> Result<ProcessCodegen, LowerError> {
        if let Some(path) = std::env::var_os("REFLEX_CODEGEN").filter(|p| !p.is_empty()) {
            return ProcessCodegen::at(PathBuf::from(path));
        }
        let own = std::env::current_exe().ok();
        // A test binary lies in a directory below the programs.
        let beside = own.iter().flat_map(|p| p.ancestors().skip(1).take(2)).map(Path::to_path_buf);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = beside.chain(std::env::split_paths(&path));
        match places.map(|dir| dir.join(PROGRAM)).find(|p| p.is_file()) {
            Some(program) => ProcessCodegen::at(program),
            None => Err(LowerError::codegen(format!(
                "{PROGRAM} was not found next to this program or on the search path; install \
                 it, or name it in REFLEX_CODEGEN"
            ))),
        }
    }

    /// The program at a path.
    pub fn at(program: PathBuf) -> Result<ProcessCodegen, LowerError> {
        let bad = |e: io::Error| LowerError::codegen(format!("{}: {e}", program.display()));
        let data = fs::metadata(&program).map_err(bad)?;
        let time = data.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        let identity = format!("{} {}", data.len(), time.map_or(0, |t| t.as_nanos()));
        let timeout = timeout(std::env::var(TIMEOUT_VARIABLE).ok().as_deref())?;
        Ok(ProcessCodegen { program, identity, timeout, idle: Mutex::new(vec![]) })
    }

    /// Tells builds of the program apart, for [`crate::kernel_cache::KernelCache::new`].
    pub fn identity(&self) -> &str {
        &self.identity
    }

    fn worker(&self) -> io::Result<Worker> {
        let idle = self.idle.lock().pop();
        match idle {
            Some(worker) => Ok(worker),
            None => Worker::start(&self.program),
        }
    }

    fn failed(&self, request: &Request, reason: &str) -> Response {
        let names: Vec<&str> = request.funcs.iter().map(|f| f.name.as_str()).collect();
        let message = format!("{}: {reason}", self.program.display());
        Response::Failed { func: names.join(", "), message }
    }
}

impl Codegen for ProcessCodegen {
    fn compile(&self, request: &Request) -> Response {
        let mut worker = match self.worker() {
            Ok(worker) => worker,
            Err(error) => return self.failed(request, &format!("cannot be started: {error}")),
        };
        match worker.exchange_within(request, self.timeout) {
            Ok(response) => {
                self.idle.lock().push(worker);
                response
            }
            Err(Failure::Process(error)) => self.failed(request, &worker.post_mortem(&error)),
            Err(Failure::Timeout(limit)) => {
                let reason = format!(
                    "no answer within {} s, so the process was ended; {TIMEOUT_VARIABLE} sets the \
                     limit in seconds, or `off`",
                    limit.as_secs_f64()
                );
                self.failed(request, &reason)
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
fn timeout(value: Option<&str>) -> Result<Option<Duration>, LowerError> {
    let Some(text) = value.filter(|text| !text.is_empty()) else { return Ok(Some(TIMEOUT)) };
    if text == "off" {
        return Ok(None);
    }
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        Some(limit) => Ok(Some(limit)),
        None => Err(LowerError::codegen(format!(
            "{TIMEOUT_VARIABLE}={text}: expected a number of seconds, or `off`"
        ))),
    }
}

impl Worker {
    fn start(program: &Path) -> io::Result<Worker> {
        // In memory, since folders for temporary files may be missing or read-only.
        let errors = File::from(memfd_create("reflex-codegen stderr", MemfdFlags::CLOEXEC)?);
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone()?)
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.ok_or_else(|| io::Error::other("no pipes"))?;
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
        if length > LIMIT {
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
        let quote = self.last_words().unwrap_or_default();
        if !quote.trim().is_empty() {
            text.push_str(": ");
            text.push_str(quote.trim());
        }
        text
    }

    fn last_words(&mut self) -> io::Result<String> {
        let length = self.errors.seek(SeekFrom::End(0))?;
        self.errors.seek(SeekFrom::Start(length.saturating_sub(QUOTE)))?;
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
    use reflex_tir::codegen::{OptLevel, PROTOCOL, Target};

    use super::*;

    fn request() -> Request {
        let target = Target {
            triple: String::new(),
            features: Default::default(),
            vector_bytes: 16,
            l1d_bytes: 0,
            l2_bytes: 0,
        };
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
        let codegen = ProcessCodegen { timeout: limit, ..script(folder.path(), "exec sleep 3600") };
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
            let message = timeout(Some(bad)).unwrap_err().to_string();
            assert!(message.starts_with(&format!("REFLEX_CODEGEN_TIMEOUT={bad}: ")), "{message}");
        }
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = ProcessCodegen::at("/nonexistent/reflex-codegen".into()).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/reflex-codegen"), "{error}");
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
