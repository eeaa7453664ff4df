//! Tells `perf` the code of generated functions, not only their names: a `jitdump` file, which
//! `perf inject --jit` joins with a recording made with `perf record -k mono`.
//!
//! Opt-in, one file for a process: `jit-PID.dump` in the folder that `JITDUMPDIR` names, or the
//! current one. `perf` learns of the file because it is mapped executable once. Records are only
//! appended; code that was freed and replaced is told apart by time. Not here: line tables and
//! unwind data.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::machine::Machine;

/// "JiTD".
const MAGIC: u32 = 0x4A69_5444;
const VERSION: u32 = 1;
const HEADER_SIZE: u32 = 40;
/// Kind of a record: code was loaded.
const CODE_LOAD: u32 = 0;
/// Bytes of such a record before the name.
const LOAD_SIZE: usize = 56;

/// An open file.
#[derive(Debug)]
pub struct JitDump {
    path: PathBuf,
    /// The file, and how many functions it has.
    file: Mutex<(File, u64)>,
}

impl JitDump {
    /// The file of this process, opened by the first call; the error of that call, ever after.
    pub fn of_process() -> Result<&'static JitDump, &'static io::Error> {
        static DUMP: OnceLock<io::Result<JitDump>> = OnceLock::new();
        let open = || {
            let folder = std::env::var_os("JITDUMPDIR").map_or_else(PathBuf::new, PathBuf::from);
            JitDump::open_in(&folder)
        };
        DUMP.get_or_init(open).as_ref()
    }

    /// Opens the file of this process in `folder` anew.
    fn open_in(folder: &Path) -> io::Result<JitDump> {
        let path = folder.join(format!("jit-{}.dump", std::process::id()));
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(true).open(&path)?;
        let mut header = Vec::with_capacity(HEADER_SIZE as usize);
        let machine = Machine::HOST.number().0.into();
        for word in [MAGIC, VERSION, HEADER_SIZE, machine, 0, std::process::id()] {
            header.extend(word.to_le_bytes());
        }
        header.extend(now().to_le_bytes());
        header.extend(0_u64.to_le_bytes());
        file.write_all(&header)?;
        // SAFETY: a fresh mapping of one page of a file that is open; nothing is ever run or read
        // through it. It stays as long as the process, like the file.
        let mark = unsafe {
            let protection = libc::PROT_READ | libc::PROT_EXEC;
            libc::mmap(
                std::ptr::null_mut(),
                HEADER_SIZE as usize,
                protection,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        if mark == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(JitDump { path, file: Mutex::new((file, 0)) })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds functions: name, address, size in bytes.
    ///
    /// # Safety
    /// Each is that many bytes of mapped code.
    pub unsafe fn add<'n>(
        &self,
        functions: impl IntoIterator<Item = (&'n str, usize, usize)>,
    ) -> io::Result<()> {
        let mut file = self.file.lock();
        for (name, address, size) in functions {
            // SAFETY: the caller passes mapped code of that size, see `# Safety`.
            let code = unsafe { std::slice::from_raw_parts(address as *const u8, size) };
            file.1 += 1;
            let record = record(name, address, code, file.1);
            file.0.write_all(&record)?;
        }
        Ok(())
    }
}

fn record(name: &str, address: usize, code: &[u8], index: u64) -> Vec<u8> {
    let name: Vec<u8> = name.bytes().filter(|&byte| byte != 0).chain([0]).collect();
    let size = LOAD_SIZE + name.len() + code.len();
    let mut record = Vec::with_capacity(size);
    record.extend(CODE_LOAD.to_le_bytes());
    record.extend((size as u32).to_le_bytes());
    record.extend(now().to_le_bytes());
    // SAFETY: the call takes no argument and cannot fail.
    let thread = unsafe { libc::gettid() } as u32;
    for word in [std::process::id(), thread] {
        record.extend(word.to_le_bytes());
    }
    for word in [address as u64, address as u64, code.len() as u64, index] {
        record.extend(word.to_le_bytes());
    }
    record.extend(name);
    record.extend(code);
    record
}

/// Nanoseconds of the clock that `perf record -k mono` takes.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local `timespec`, which the call fills.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_form_perf_reads() {
        let folder = tempfile::tempdir().unwrap();
        let dump = JitDump::open_in(folder.path()).unwrap();
        let code = [0x90_u8, 0xc3];
        // SAFETY: both ranges lie in the local array `code`.
        unsafe { dump.add([("one", code.as_ptr().addr(), 2), ("two", code.as_ptr().addr(), 1)]) }
            .unwrap();
        let bytes = std::fs::read(dump.path()).unwrap();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(&bytes[..4], b"DTiJ");
        assert_eq!((word(4), word(8), word(12)), (1, 40, u32::from(Machine::HOST.number().0)));
        assert_eq!(word(20), std::process::id());
        let mut at = 40;
        for (index, name) in [(1, "one"), (2, "two")] {
            let size = word(at + 4) as usize;
            let length = 3 - index;
            assert_eq!((word(at), size), (0, 56 + 4 + length));
            assert_eq!((word(at + 40), word(at + 48)), (length as u32, index as u32));
            assert_eq!(&bytes[at + 56..at + 60], format!("{name}\0").as_bytes());
            assert_eq!(&bytes[at + 60..at + size], &code[..length]);
            at += size;
        }
        assert_eq!(at, bytes.len());
    }
}
