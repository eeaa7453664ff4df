//! Large constants of a compiled library are used where the file is mapped: nothing is copied,
//! and processes that run it share its pages.

#[path = "common/large.rs"]
mod large;

use std::path::{Path, PathBuf};
use std::process::Command;

use large::{COUNT, library};
use reflex::{Array, Engine, Feed, Mode};

const BYTES: u64 = 4 * COUNT as u64;
const KIB: u64 = 1024;

/// Names the library in the process that a test starts.
const CHILD: &str = "REFLEX_TEST_LOADING";

/// Runs the library, so that every page of the constant was read, and checks the answer.
fn run(path: &Path) -> reflex::Session {
    let program = Engine::builder().threads(1).build().unwrap().load(path).unwrap();
    let x = Array::of(&[COUNT as i64], &vec![1.0_f32; COUNT]).unwrap();
    let feed = program.prepare("main", &Feed::from([("x".to_owned(), x)])).unwrap();
    let mut session = program.session(Mode::Bytecode).unwrap();
    let y = session.call(&feed).unwrap().arrays().unwrap()[0].1.to_vec::<f32>().unwrap();
    assert!(y.iter().enumerate().all(|(at, y)| *y == (at % 1000) as f32 + 1.0));
    session
}

/// Sums of the mappings of `file` in this process, in bytes, by the kernel's names.
fn mapped(file: &Path, fields: [&str; 2]) -> [u64; 2] {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (name, mut inside, mut sums) = (file.to_str().unwrap(), false, [0; 2]);
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { continue };
        let Some(field) = first.strip_suffix(':') else {
            inside = line.ends_with(name);
            continue;
        };
        if let (true, Some(at)) = (inside, fields.iter().position(|known| *known == field)) {
            sums[at] += words.next().unwrap().parse::<u64>().unwrap() * KIB;
        }
    }
    sums
}

#[test]
fn constants_are_used_in_place_and_shared() {
    let folder = tempfile::tempdir().unwrap();
    let path = library(folder.path()).canonicalize().unwrap();
    let _running = run(&path);
    let [resident, copied] = mapped(&path, ["Rss", "Anonymous"]);
    assert!(resident >= BYTES, "{resident} bytes of the file are resident");
    // Relocated tables and slots are written; they are a page or a few.
    assert!(copied < 256 * KIB, "{copied} bytes of the file were copied");

    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_other_process", "--ignored", "--nocapture"])
        .env(CHILD, &path)
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
}

#[test]
#[ignore = "part of another test, which starts it"]
fn the_other_process() {
    let Some(path) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let _running = run(&path);
    let [clean, dirty] = mapped(&path, ["Shared_Clean", "Shared_Dirty"]);
    // Pages that have not been written to the disk yet are dirty, and shared all the same.
    assert!(clean + dirty >= BYTES, "{clean} + {dirty} bytes are shared");
}
