//! The path where this library is installed.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Returns the folders where `reflex-codegen` may lie: those of the shared library that this code is
/// in, and of the program that runs, which is another one where a host loaded the library.
pub(crate) fn codegen_folders() -> &'static [PathBuf] {
    static FOLDERS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    FOLDERS.get_or_init(find_folders)
}

fn find_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = vec![];
    let files = [own_file(), std::env::current_exe().ok()];
    for folder in files.iter().flatten().filter_map(|file| file.parent()) {
        // `lib` and `bin` of a prefix; a test binary lies in a folder below the programs.
        let sibling = folder.with_file_name("bin");
        folders.extend([folder, &sibling].map(Path::to_path_buf));
        folders.extend(folder.parent().map(Path::to_path_buf));
    }
    let mut seen = std::collections::BTreeSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    folders
}

/// Returns the file that this code was loaded from, without symbolic links.
fn own_file() -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    let address = own_file as *const libc::c_void;
    // SAFETY: `dladdr` takes any address and writes the whole structure where it finds one, which
    // its result says.
    let info =
        unsafe { (libc::dladdr(address, info.as_mut_ptr()) != 0).then(|| info.assume_init())? };
    // SAFETY: the loader's name of a file is null or a string that lives as long as the file is
    // loaded, which is as long as this code runs.
    let name = unsafe { (!info.dli_fname.is_null()).then(|| CStr::from_ptr(info.dli_fname))? };
    // The program itself may have its first argument as its name, which leads nowhere.
    Path::new(OsStr::from_bytes(name.to_bytes())).canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_those_of_the_program_once() {
        let folders = codegen_folders();
        let own = std::env::current_exe().expect("a test has a path");
        assert_eq!(folders.first().map(PathBuf::as_path), own.parent());
        let distinct: std::collections::BTreeSet<_> = folders.iter().collect();
        assert_eq!(distinct.len(), folders.len(), "{folders:?}");
    }
}
