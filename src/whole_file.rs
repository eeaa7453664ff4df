//! Files that appear whole or not at all.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use rustix::io::Errno;

/// Writes a file in place of what is at `path`, with what `write` puts into it. Returns its size.
///
/// The file gets its name when it is complete: until then it has none, so nothing is left of it
/// when the process is interrupted. Where the file system has no nameless files, it is a
/// temporary file beside `path` meanwhile.
pub(crate) fn write(
    path: &Path,
    permissions: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<u64> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mode = Mode::from_bits_truncate(permissions);
    let nameless = open(folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode);
    let mut file = match nameless {
        Ok(nameless) => File::from(nameless),
        // The folder is the problem, and no temporary file need be named.
        Err(error @ (Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::ROFS)) => {
            return Err(error.into());
        }
        Err(_) => return write_aside(path, folder, mode, write),
    };
    write(&mut file)?;
    rustix::fs::fchmod(&file, mode)?;
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    let link = |to: &Path| linkat(CWD, &*descriptor, CWD, to, AtFlags::SYMLINK_FOLLOW);
    match link(path) {
        Ok(()) => {}
        // A link replaces nothing, but a renaming does.
        Err(Errno::EXIST) => {
            let aside = tempfile::Builder::new().make_in(folder, |to| Ok(link(to)?))?;
            aside.persist(path).map_err(|e| e.error)?;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(file.metadata()?.len())
}

fn write_aside(
    path: &Path,
    folder: &Path,
    mode: Mode,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<u64> {
    let mut aside = tempfile::NamedTempFile::new_in(folder)?;
    write(aside.as_file_mut())?;
    rustix::fs::fchmod(aside.as_file(), mode)?;
    let file = aside.persist(path).map_err(|e| e.error)?;
    Ok(file.metadata()?.len())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_that_is_not_there_is_an_error_about_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none").join("x.so");
        let error = write(&path, 0o644, |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        assert!(!error.to_string().contains(".tmp"), "{error}");
    }

    #[test]
    fn a_file_has_a_name_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.so");
        let count = || fs::read_dir(folder.path()).unwrap().count();
        for text in ["first", "the second"] {
            let before = count();
            let size = write(&path, 0o755, |file| {
                file.write_all(text.as_bytes())?;
                assert_eq!(count(), before, "nothing is there that an interruption would leave");
                Ok(())
            });
            assert_eq!(size.unwrap(), text.len() as u64);
            assert_eq!((fs::read_to_string(&path).unwrap().as_str(), count()), (text, 1));
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
        let failed = write(&path, 0o755, |_| Err(io::Error::other("no more")));
        assert_eq!(failed.unwrap_err().to_string(), "no more");
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), count()), ("the second", 1));
    }

    #[test]
    fn a_file_system_without_nameless_files_gets_one_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.so");
        let mode = Mode::from_bits_truncate(0o700);
        let write = |file: &mut File| file.write_all(b"text");
        assert_eq!(write_aside(&path, folder.path(), mode, write).unwrap(), 4);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
