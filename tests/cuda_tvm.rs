//! TVM's executables for CUDA devices, with the stand-in for the driver (`tests/libcuda`): their kernels
//! give the answers that TVM has on a CPU. `tests/tvm/cuda_fixtures.py` made them.

#[path = "common/property.rs"]
mod property;
#[path = "common/stand_in.rs"]
mod stand_in;

use std::path::{Path, PathBuf};

use property::property;
use reflex_cuda::tvm::DeviceModule;
use reflex_fuzz::mutate;
use stand_in::{Driver, StandIn, answer, text};

const FOLDER: &str = "tests/tvm/cuda";
/// The stand-in runs machine code that it has the text of.
const KNOWN: &str = "cubins=tests/tvm/cuda";

/// Checks a file against a reference, and returns what is said.
fn check(driver: &StandIn, plan: &str, file: &str, reference: &str, args: &[&str]) -> String {
    let [file, npz] = [file, reference].map(|name| format!("{FOLDER}/{name}"));
    let given = ["check", &file, "--npz", &npz, "--rtol", "1e-5", "--atol", "1e-6"];
    answer(&driver.run(plan, &[&given, args].concat()))
}

#[test]
fn every_mode_answers_as_tvm_does_on_a_cpu() {
    let driver = StandIn::new();
    for (file, reference, feeds) in [
        ("rows.so", "rows.npz", 8),
        ("rows.compiled.so", "rows.npz", 8),
        ("product.so", "product.npz", 7),
        ("reverse.so", "reverse.npz", 2),
    ] {
        for (mode, plan) in [("bytecode", ""), ("compiled", "sm=90"), ("tiered", "")] {
            // TVM's reductions shuffle from lanes that do not exist, whose values they do not use, and
            // want the lanes of a warp together after a branch, as they are in the order of their index.
            let plan = match file {
                "reverse.so" => format!("seed=4;{plan}"),
                _ => format!("lanes=any;{plan}"),
            };
            let args = ["--device", "cuda:0", "--mode", mode];
            let said = check(&driver, &plan, file, reference, &args);
            assert!(said.contains(&format!("{feeds} feeds, mode {mode}")), "{file}: {said}");
        }
        check(&driver, "lanes=any", file, reference, &["--device", "cuda:1"]);
    }
}

#[test]
fn machine_code_is_given_to_the_driver_as_it_is() {
    let driver = StandIn::new();
    for form in ["cubin", "fatbin"] {
        let file = format!("reverse.{form}.so");
        for mode in ["bytecode", "compiled", "tiered"] {
            check(&driver, KNOWN, &file, "reverse.npz", &["--device", "cuda", "--mode", mode]);
        }
        let path = format!("{FOLDER}/{file}");
        let output = driver.run("", &["run", &path, "--device", "cuda"]);
        let said = text(&output.stderr);
        let words =
            "the code of reverse_kernel: cuda:0: cuModuleLoadDataEx: CUDA_ERROR_NO_BINARY_FOR_GPU";
        assert!(!output.status.success() && said.contains(words), "{said}");
    }
}

#[test]
fn without_a_device_a_program_is_described_and_does_not_run() {
    let driver = StandIn::new();
    let file = format!("{FOLDER}/rows.so");
    let info = answer(&driver.run("", &["info", &file]));
    assert!(info.contains("exported by TVM") && info.contains("x: float32[s0, 24]"), "{info}");
    for device in [&["--device", "cpu"][..], &["--device", "cuda:sm_80"], &[]] {
        let output = driver.run("", &[&["run", &file][..], device].concat());
        let said = text(&output.stderr);
        let words = "its kernels are for cuda: load it for a device, such as cuda:0";
        assert!(!output.status.success() && said.contains(words), "{device:?}: {said}");
    }
}

/// Runs the calls of a reference in a session, and returns the session.
fn called(program: &reflex::Program, mode: reflex::Mode, reference: &str) -> reflex::Session {
    let cases = reflex::numpy::read_cases(&Path::new(FOLDER).join(reference)).unwrap();
    let mut session = program.session(mode).unwrap();
    for (number, case) in cases.iter().enumerate() {
        let prepared = program.prepare("main", &case.inputs).unwrap();
        let found = session.call(&prepared).unwrap().arrays().unwrap();
        let expected = case.outputs["output0"].to_vec::<f32>().unwrap();
        let found = found[0].1.to_vec::<f32>().unwrap();
        assert_eq!(found.len(), expected.len());
        for (x, y) in found.iter().zip(&expected) {
            assert!((x - y).abs() < 1e-5, "{reference}, call {number}: {x} is not {y}");
        }
    }
    session
}

/// Calls become batches, those of TVM's regions for CUDA graphs among them.
#[test]
fn calls_are_batches() {
    use reflex::{Engine, Mode, ModelFormat, ModelSource};
    // SAFETY: other tests use variables under the lock of the standard library; the stand-in, which has
    // its own, is loaded after this.
    unsafe { std::env::set_var("REFLEX_STANDIN", "lanes=any") };
    let _driver = Driver::load();
    let engine = Engine::builder().device("cuda:0").build().unwrap();
    for (name, launches) in [("rows", 4), ("product", 4)] {
        // From memory, where a library has no file.
        let bytes = std::fs::read(format!("{FOLDER}/{name}.so")).unwrap();
        let source = ModelSource::bytes(ModelFormat::Library, bytes);
        let program = engine.load(source).unwrap();
        let reference = format!("{name}.npz");
        let session = called(&program, Mode::Tiered, &reference);
        let report = session.batches();
        assert!(report.refused.is_empty(), "{name}: {report}");
        let (_, found, replays) = report.ready[0];
        assert!(found == launches && replays > 0, "{name}: {report}");
        called(&program, Mode::Bytecode, &reference);
    }
}

/// A file with bytes replaced by others of the same length.
fn damaged(name: &str, replace: &[(&[u8], &[u8])], folder: &Path) -> PathBuf {
    let mut bytes = std::fs::read(format!("{FOLDER}/{name}")).unwrap();
    for (from, to) in replace {
        assert_eq!(from.len(), to.len());
        let at = bytes.windows(from.len()).position(|part| part == *from).expect("is there");
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn what_does_not_fit_is_named() {
    let (driver, folder) = (StandIn::new(), tempfile::tempdir().expect("a folder"));
    let said = |name: &str, from: &[u8], to: &[u8]| {
        let path = damaged(name, &[(from, to)], folder.path());
        let args = ["run", path.to_str().unwrap(), "--device", "cuda:0"];
        let output = driver.run(KNOWN, &args);
        assert!(!output.status.success(), "{}", text(to));
        text(&output.stderr)
    };
    let ptx = "reverse.so";
    for (from, to, words) in [
        (
            &b"\x03\0\0\0\0\0\0\0ptx"[..],
            &b"\x03\0\0\0\0\0\0\0ptz"[..],
            "code of the format \"ptz\"",
        ),
        (
            b".entry reverse_kernel",
            b".entry reverse_kernex",
            "no kernel `reverse_kernel` in its PTX",
        ),
        (b".param .f32", b".param .u64", "`reverse_kernel` whose parameters in the PTX are others"),
        (b".target sm_80", b".target sm_99", "is for sm_99, and the device is sm_80"),
        (b"blockIdx.y", b"blockIdx.q", "`reverse_kernel` with launch parameter `blockIdx.q`"),
        (b"mul.f32", b"mul.f33", "CUDA_ERROR_INVALID_PTX"),
    ] {
        let said = said(ptx, from, to);
        assert!(said.contains(words), "{words}: {said}");
    }
    let said = said("reverse.cubin.so", b"\x7fELF\x02\x01\x01\x33", b"\x7fELF\x02\x02\x01\x33");
    assert!(said.contains("a module of kind cuda has code that is no cubin"), "{said}");
}

/// The serialized device module of a fixture.
fn module(name: &str) -> Vec<u8> {
    let bytes = std::fs::read(format!("{FOLDER}/{name}")).unwrap();
    let kind = b"\x04\0\0\0\0\0\0\0cuda";
    let at =
        bytes.windows(kind.len()).position(|part| part == kind).expect("is there") + kind.len();
    let (size, rest) = bytes[at..].split_first_chunk::<8>().expect("its size");
    rest[..u64::from_le_bytes(*size) as usize].to_vec()
}

#[test]
fn damaged_modules_are_refused_or_read() {
    for name in ["reverse.so", "reverse.cubin.so", "reverse.fatbin.so", "rows.so"] {
        let whole = module(name);
        DeviceModule::read(&whole).unwrap();
        let (mut read, mut refused) = (0, 0);
        property(500, |u| {
            let mut bytes = whole.clone();
            mutate::bytes(u, &mut bytes)?;
            match DeviceModule::read(&bytes) {
                Ok(_) => read += 1,
                Err(error) => {
                    refused += 1;
                    assert!(error.message().contains("a module of kind cuda"), "{error}");
                }
            }
            Ok(())
        });
        assert!(read > 5 && refused > 5, "{name}: {read} are read, {refused} refused");
    }
}
