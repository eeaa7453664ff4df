//! The oracles of `fuzz/` over input from outside, on damaged programs and texts.

#[path = "common/property.rs"]
mod property;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arbtest::arbitrary::Unstructured;
use property::property;
use reflex_fuzz::blobs::{self, Reached};
use reflex_fuzz::programs::ProgramCase;
use reflex_fuzz::{mutate, scripts};
use reflex_vm::serialize::to_bytes;

/// What a case is damaged by; taken first, since programs use what bytes there are.
type Damage = [u8; 24];

/// How many cases got how far. Damage that is always found, or never, would say nothing about
/// what comes after.
fn assert_varied(reached: &BTreeMap<Reached, usize>) {
    for (stage, least) in [(Reached::Nothing, 20), (Reached::Read, 1), (Reached::Ran, 20)] {
        assert!(reached.get(&stage).is_some_and(|&cases| cases >= least), "{reached:?}");
    }
}

#[test]
fn damaged_executables_are_refused_or_safe() {
    let mut reached = BTreeMap::new();
    property(400, |u| {
        let damage: Damage = u.arbitrary()?;
        let program: ProgramCase = u.arbitrary()?;
        let mut bytes = to_bytes(&program.executable);
        mutate::bytes(&mut Unstructured::new(&damage), &mut bytes)?;
        *reached.entry(blobs::blob(&bytes)).or_default() += 1;
        Ok(())
    });
    assert_varied(&reached);
}

/// The text tests' files with one of these endings, in order.
fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests").join(folder);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|found| found == ending));
    files.sort();
    assert!(!files.is_empty(), "{}", folder.display());
    files
}

/// The text of one of the files, damaged.
fn damaged(u: &mut Unstructured<'_>, files: &[PathBuf]) -> arbtest::arbitrary::Result<String> {
    let damage: Damage = u.arbitrary()?;
    let text = std::fs::read_to_string(u.choose(files)?).expect("the file is there");
    // What a text test expects of its runs is not part of the program.
    let end = text.find("\n> ").unwrap_or(text.len());
    mutate::text(&mut Unstructured::new(&damage), &text[..end])
}

#[test]
fn damaged_listings_are_refused_or_safe() {
    let files = [files("vm", "vm"), files("trace", "vm")].concat();
    let mut reached = BTreeMap::new();
    property(400, |u| {
        *reached.entry(blobs::listing(&damaged(u, &files)?)).or_default() += 1;
        Ok(())
    });
    assert_varied(&reached);
}

#[test]
fn damaged_scripts_are_refused_or_read_back() {
    let files = ["relax", "relax/printed", "tir"].map(|folder| files(folder, "py")).concat();
    let (mut accepted, mut cases) = (0, 0);
    property(400, |u| {
        accepted += usize::from(scripts::script(&damaged(u, &files)?));
        cases += 1;
        Ok(())
    });
    assert!((20..cases - 20).contains(&accepted), "{accepted} of {cases} accepted");
}
