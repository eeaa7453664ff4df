//! Tells `perf` the names of generated functions, through `/tmp/perf-PID.map`.
//!
//! Opt-in: nothing is written unless the host opens a [`PerfMap`]. Entries are only ever appended;
//! `perf` takes the last one for an address, so code that was freed and replaced reads correctly
//! for new samples. Not here: line tables (nothing has source lines), unwind data (`gdb`).

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// An open map file.
#[derive(Debug)]
pub struct PerfMap {
    path: PathBuf,
    file: Mutex<File>,
}

impl PerfMap {
    /// Opens the file that `perf` looks for: `/tmp/perf-PID.map` of this process.
    pub fn open() -> io::Result<Self> {
        Self::open_at(Path::new(&format!("/tmp/perf-{}.map", std::process::id())))
    }

    fn open_at(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// Where the map is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds functions: name, address, size in bytes.
    pub fn add<'n>(
        &self,
        functions: impl IntoIterator<Item = (&'n str, usize, usize)>,
    ) -> io::Result<()> {
        let mut lines = String::new();
        for (name, address, size) in functions {
            let name = name.replace(['\n', '\r'], "?");
            lines.push_str(&format!("{address:x} {size:x} {name}\n"));
        }
        self.file.lock().write_all(lines.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_the_form_perf_reads() {
        let dir = tempfile::tempdir().unwrap();
        let map = PerfMap::open_at(&dir.path().join("map")).unwrap();
        map.add([("main", 0x1000, 0x20), ("two\nlines", 0x2000, 16)]).unwrap();
        let text = std::fs::read_to_string(map.path()).unwrap();
        assert_eq!(text, "1000 20 main\n2000 10 two?lines\n");
    }
}
