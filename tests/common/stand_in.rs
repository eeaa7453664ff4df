//! The stand-in for the driver, for the command line and for the process of a test.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::process::{Command, Output};

use tempfile::TempDir;

/// A folder with the stand-in under the driver's name.
pub struct StandIn(TempDir);

impl StandIn {
    pub fn new() -> StandIn {
        let test = std::env::current_exe().expect("the test's path");
        let built = test.with_file_name("libcuda.so");
        let folder = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink(built, folder.path().join("libcuda.so.1")).expect("links");
        StandIn(folder)
    }

    /// The command line, with a plan for the driver.
    pub fn reflex(&self, plan: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
        command.args(args).env("LD_LIBRARY_PATH", self.0.path()).env("REFLEX_STANDIN", plan);
        command
    }

    pub fn run(&self, plan: &str, args: &[&str]) -> Output {
        self.reflex(plan, args).output().expect("starts")
    }
}

/// Output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The output of a command that succeeds.
pub fn answer(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Functions of the driver that a host of this process calls, under their types in C.
pub struct Driver(*mut std::ffi::c_void);

impl Driver {
    /// Makes the stand-in this process's driver: who asks for the driver's name gets it, as it is open.
    pub fn load() -> Driver {
        let test = std::env::current_exe().expect("the test's path");
        let path = test.with_file_name("libcuda.so");
        let path = std::ffi::CString::new(path.to_str().expect("text")).expect("a path");
        // SAFETY: the library has no constructors.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "the stand-in opens");
        Driver(handle)
    }

    /// The address of a function.
    pub fn symbol(&self, name: &str) -> *mut std::ffi::c_void {
        let name = std::ffi::CString::new(name).expect("a name");
        // SAFETY: the library is open.
        let function = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!function.is_null(), "{name:?}");
        function
    }

    /// Calls a function with integers and addresses, which it takes in registers alike.
    pub fn call(&self, name: &str, args: [u64; 4]) {
        // SAFETY: the library has the function, which takes at most four such arguments and
        // returns a status; the addresses are of what the driver's manual says.
        let status = unsafe {
            let function = self.symbol(name);
            let function: extern "C" fn(u64, u64, u64, u64) -> u32 = std::mem::transmute(function);
            function(args[0], args[1], args[2], args[3])
        };
        assert_eq!(status, 0, "{name:?}");
    }
}
