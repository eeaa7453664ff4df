//! The oracles of `fuzz/` over input from outside, on damaged programs and texts.

#[path = "common/property.rs"]
mod property;
#[path = "relay/programs.rs"]
mod relay_programs;
#[path = "common/skip.rs"]
mod skip;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use arbtest::arbitrary::Unstructured;
use property::property;
use reflex_fuzz::blobs::{self, Reached};
use reflex_fuzz::facade::{Driver, Model};
use reflex_fuzz::nodes::{self, Stage};
use reflex_fuzz::programs::ProgramCase;
use reflex_fuzz::{mutate, relay, scripts};
use reflex_runtime::library::Library;
use reflex_vm::serialize::to_bytes;

/// The bytes that choose a case's damage; taken first, since programs use all that are left.
type Damage = [u8; 24];

/// Checks that cases reached every stage. Damage that is always found, or never, would say
/// nothing about the stages after it.
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

/// Programs of the Relay virtual machine: data values, matches, closures, shapes at run time.
fn programs_of_relay() -> [reflex_relay::verify::Verified; 6] {
    use relay_programs::{add_constant, booleans, dynamic, fold, sum_up, values};
    [add_constant(), booleans(), dynamic(), fold(), sum_up(), values()]
}

/// Flips of bits, changes of fields and other damage; each runs with fuel in every mode.
/// `./x test --relay` tries ten thousand and more.
#[test]
fn damaged_relay_executables_are_refused_or_safe() {
    const CHANGES: u32 = 2_000;
    let programs = programs_of_relay();
    let mut reached = BTreeMap::new();
    property(CHANGES, |u| {
        let program = u.choose(&programs)?;
        let stage = match u.int_in_range(0..=3)? {
            0 => {
                let mut bytes = reflex_relay::write::write(program);
                mutate::bytes(u, &mut bytes)?;
                relay::file(&bytes)
            }
            1 => relay::file(&flipped_or_cut(u, &reflex_relay::write::write(program))?),
            _ => {
                let mut exec = program.clone().into_inner();
                relay::change(u, &mut exec)?;
                relay::executable(exec)
            }
        };
        *reached.entry(stage).or_default() += 1;
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

#[test]
fn damaged_relay_texts_are_refused_or_read_back() {
    let cases = std::fs::read_dir("tests/relay_text/cases").expect("the cases");
    let paths = cases.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "relay")).collect();
    files.sort();
    let (mut lowered, mut cases) = (0, 0);
    property(400, |u| {
        lowered += usize::from(scripts::relay(&damaged(u, &files)?));
        cases += 1;
        Ok(())
    });
    assert!((10..cases - 10).contains(&lowered), "{lowered} of {cases} lowered");
}

/// Nodes of the text tests' modules with other references, numbers and letters, which keep the form of the text,
/// and with any damage.
#[test]
fn damaged_nodes_are_refused_or_compiled() {
    let texts: Vec<String> = files("relax", "py")
        .iter()
        .filter_map(|path| Some(reflex::ir::save(&reflex::Engine::nodes(path).ok()?)))
        .filter(|text| text.len() < 30_000)
        .collect();
    assert!(texts.len() > 10, "{} texts", texts.len());
    let mut reached = BTreeMap::<Stage, usize>::new();
    property(400, |u| {
        let mut bytes = u.choose(&texts)?.clone().into_bytes();
        for _ in 0..u.int_in_range(1..=3)? {
            let at = u.choose_index(bytes.len())?;
            match bytes[at] {
                b'0'..=b'9' => bytes[at] = *u.choose(b"0123456789")?,
                b'a'..=b'z' | b'A'..=b'Z' => bytes[at] = *u.choose(b"abnxTVR_")?,
                _ if u.ratio(1, 4)? => mutate::bytes(u, &mut bytes)?,
                _ => {}
            }
        }
        if let Ok(text) = std::str::from_utf8(&bytes) {
            *reached.entry(nodes::json(text)).or_default() += 1;
        }
        Ok(())
    });
    println!("{reached:?}");
    for stage in [Stage::Nothing, Stage::Graph, Stage::Compiled] {
        assert!(reached.get(&stage).is_some_and(|&cases| cases >= 10), "{reached:?}");
    }
}

/// The small modules that TVM builds for its interpreter, in order of names.
fn modules_of_tvm() -> Option<Vec<PathBuf>> {
    let python = skip::variable("REFLEX_TVM_PYTHON")?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tvm-small-modules");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tvm/modules.py");
    let built = Command::new(python).arg(script).arg(&folder).arg("--small").status();
    assert!(built.expect("python runs").success(), "TVM could not export the modules");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the folder was made")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().ends_with(".bytecode.so"))
        .collect();
    paths.sort();
    Some(paths)
}

/// Their executables.
fn executables_of_tvm() -> Option<Vec<Vec<u8>>> {
    let executable = |path: &PathBuf| {
        // SAFETY: opening runs the library's constructors, and TVM built it a moment ago.
        let library = unsafe { Library::open(path) }.expect("TVM's library loads");
        let module = library.bundle().expect("a bundle").find("relax.VMExecutable");
        library.bundle_bytes(module.expect("an executable").bytes.clone()).to_vec()
    };
    Some(modules_of_tvm()?.iter().map(executable).collect())
}

/// One bit flipped, or the end cut off. Bit flips of a word make most of what is near a sound
/// program: other registers, constants, callees and jumps.
fn flipped_or_cut(u: &mut Unstructured<'_>, bytes: &[u8]) -> arbtest::arbitrary::Result<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    let at = u.choose_index(bytes.len())?;
    if u.ratio(1, 8)? {
        bytes.truncate(at);
    } else {
        bytes[at] ^= 1 << u.int_in_range(0..=7)?;
    }
    Ok(bytes)
}

/// Ten thousand of them, on two threads; each runs with fuel in every mode.
#[test]
fn changed_files_of_tvm_are_refused_or_safe_in_every_mode() {
    const CHANGES: u32 = 10_000;
    let Some(executables) = executables_of_tvm() else { return };
    let reached = Mutex::new(BTreeMap::new());
    let halves = executables.split_at(executables.len() / 2);
    let change = |executables: &[Vec<u8>]| {
        let mut case = 0;
        property(CHANGES / 2, |u| {
            let bytes = flipped_or_cut(u, &executables[case % executables.len()])?;
            case += 1;
            let stage = blobs::blob(&bytes);
            *reached.lock().expect("no oracle failed").entry(stage).or_default() += 1;
            Ok(())
        });
    };
    std::thread::scope(|scope| {
        scope.spawn(|| change(halves.0));
        change(halves.1);
    });
    let reached = reached.into_inner().expect("no oracle failed");
    println!("{reached:?}");
    assert_varied(&reached);
}

/// Damages models and drives each through the façade: `count` cases, the same ones in every run.
fn through_the_facade(paths: &[PathBuf], count: u32) {
    let folder = tempfile::tempdir().expect("a folder");
    let driver = Driver::new(folder.path());
    let models: Vec<Model> =
        paths.iter().map(|path| Model::read(path).expect("readable")).collect();
    let (mut reached, mut case) = (BTreeMap::<Reached, usize>::new(), 0);
    property(count, |u| {
        let model = &models[case % models.len()];
        case += 1;
        let damage: [u8; 32] = u.arbitrary()?;
        let damaged = model.damaged(&mut Unstructured::new(&damage))?;
        *reached.entry(driver.model(&damaged)).or_default() += 1;
        Ok(())
    });
    println!("{case} cases: {reached:?}");
    let count = |stage| reached.get(&stage).copied().unwrap_or(0);
    assert!(count(Reached::Nothing) + count(Reached::Read) > case / 20, "{reached:?}");
    assert!(count(Reached::Ran) > case / 20, "{reached:?}");
}

#[test]
fn damaged_onnx_models_are_refused_or_run() {
    let Some(folder) = skip::variable("REFLEX_MODELS") else { return };
    let models = ["surfaces_tree", "surfaces_mlp"];
    let paths = models.map(|name| Path::new(&folder).join(name).with_extension("onnx"));
    through_the_facade(&paths, 60);
}

#[test]
fn damaged_modules_of_tvmscript_are_refused_or_run() {
    let names = ["mlp", "branch", "constants", "recursion", "dynamic"];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests/relax");
    through_the_facade(&names.map(|name| folder.join(name).with_extension("py")), 60);
}

#[test]
fn damaged_artifacts_are_refused_or_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests/relax");
    let engine = reflex::Engine::new().expect("an engine");
    let paths = ["mlp", "branch", "constants"].map(|name| {
        let path = folder.path().join(name).with_extension("so");
        let program = engine.load(scripts.join(name).with_extension("py")).expect("compiles");
        program.save(&path).expect("saves");
        path
    });
    through_the_facade(&paths, 400);
}

/// Modules with kernels that TVM lets read wherever an element of their input says.
const UNCHECKED: [&str; 2] = ["index.bytecode.so", "take.bytecode.so"];

#[test]
fn damaged_exports_of_tvm_are_refused_or_run() {
    let Some(mut paths) = modules_of_tvm() else { return };
    paths.retain(|path| !UNCHECKED.iter().any(|name| path.ends_with(name)));
    through_the_facade(&paths, 2_000);
}
