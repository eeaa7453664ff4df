//! Programs on a CUDA device, from the command line to the launch, with the stand-in for the driver
//! (`tests/libcuda`): the answers are those of the CPU.

#[path = "common/skip.rs"]
mod skip;
#[path = "common/stand_in.rs"]
mod stand_in;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use stand_in::{Driver, StandIn, answer, text};
use tempfile::TempDir;

const MLP: &str = "tests/filetests/relax/mlp.py";

#[test]
fn every_mode_answers_as_the_cpu_does() {
    let driver = StandIn::new();
    for model in [MLP, "examples/softmax.py"] {
        let on_cpu = answer(&driver.run("", &["run", model]));
        for (mode, plan) in [("bytecode", ""), ("compiled", "seed=5"), ("tiered", "seed=4;sm=90")] {
            let args = ["run", model, "--device", "cuda:0", "--mode", mode, "--warm-up"];
            assert_eq!(answer(&driver.run(plan, &args)), on_cpu, "{model} {mode}");
        }
        let other = ["run", model, "--device", "cuda:1"];
        assert_eq!(answer(&driver.run("", &other)), on_cpu, "{model} on the second device");
    }
}

/// Products on Hopper, whose tiles are copied by tensor maps: rows of any number, in memory as they are and transposed.
#[test]
fn products_of_hopper_answer_as_their_schedules_do_on_the_cpu() {
    let (driver, folder) = (StandIn::new(), tempfile::tempdir().expect("a folder"));
    let turned = "R.matmul(R.permute_dims(x, axes=[0, 2, 1]), w)";
    for (name, [x, w, y], product) in [
        ("rows", ["(m, 136)", "(136, 40)", "(m, 40)"], "R.matmul(x, w)"),
        ("batch", ["(m, 136, 72)", "(m, 136, 40)", "(m, 72, 40)"], turned),
    ] {
        let script = format!(
            "from tvm.script import ir as I
from tvm.script import relax as R
from typing import TypeVar

m = TypeVar(\"m\")

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor({x}, dtype=\"bfloat16\"), w: R.Tensor({w}, dtype=\"bfloat16\")) -> R.Tensor({y}, dtype=\"bfloat16\"):
        with R.dataflow():
            y: R.Tensor({y}, dtype=\"bfloat16\") = {product}
            R.output(y)
        return y
"
        );
        let model = folder.path().join(format!("{name}.py"));
        std::fs::write(&model, script).expect("writes");
        let model = model.to_str().unwrap();
        let wanted = answer(&driver.run("", &["run", model, "--schedule-for", "cuda:sm_90a"]));
        for plan in ["sm=90", "sm=90;seed=4"] {
            let found = driver.run(plan, &["run", model, "--device", "cuda:0"]);
            assert_eq!(answer(&found), wanted, "{name} {plan}");
        }
        let steps = ["inspect", model, "--schedule", "mat_mul", "--schedule-for", "cuda:sm_90a"];
        let steps = answer(&driver.run("", &steps));
        assert!(steps.contains("gemm, warp-specialised"), "{steps}");
        // A library says what its maps are.
        let library = folder.path().join(format!("{name}.so"));
        compile(model, "cuda:sm_90a", &library);
        let args = ["run", library.to_str().unwrap(), "--device", "cuda:0"];
        assert_eq!(answer(&deployed(&driver, "sm=90;seed=5", &args)), wanted);
        let refused = driver
            .run("sm=90;fail=cuTensorMapEncodeTiled:1:1", &["run", model, "--device", "cuda:0"]);
        let said = text(&refused.stderr);
        assert!(said.contains("cuTensorMapEncodeTiled: CUDA_ERROR_INVALID_VALUE"), "{said}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let driver = StandIn::new();
    let run = |plan: &str, device: &str| {
        let output = driver.run(plan, &["run", MLP, "--device", device]);
        assert!(!output.status.success(), "{plan} {device} runs");
        text(&output.stderr)
    };
    for (plan, device, words) in [
        ("version=11040", "cuda", "device cuda: the driver is for CUDA 11.4, and 12.0 is needed"),
        ("sm=75", "cuda", "device cuda (Stand-in 0) is sm_75; kernels need sm_80 or newer"),
        ("devices=1", "cuda:1", "device cuda:1: there is no cuda:1; there is cuda:0"),
        ("", "cuda:x", "there is no device \"cuda:x\""),
        ("fail=cuInit:1:100", "cuda", "CUDA_ERROR_NO_DEVICE"),
        ("fail=cuModuleLoadDataEx:1:218", "cuda", "CUDA_ERROR_INVALID_PTX"),
        ("memory=512", "cuda", "CUDA_ERROR_OUT_OF_MEMORY"),
        ("late=1:700", "cuda", "cuda:0 is lost: "),
    ] {
        let said = run(plan, device);
        assert!(said.contains(words), "{plan} {device}: {said}");
    }
    let mut bare = Command::new(env!("CARGO_BIN_EXE_reflex"));
    bare.args(["run", MLP, "--device", "cuda"]).env_remove("LD_LIBRARY_PATH");
    let output = bare.output().expect("starts");
    // A machine with a driver runs it.
    if !output.status.success() {
        let said = text(&output.stderr);
        assert!(
            said.contains("there is no NVIDIA driver: libcuda.so.1 cannot be opened"),
            "{said}"
        );
    }
}

/// A folder with links to cases.
fn links(cases: &Path, names: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in names {
        std::os::unix::fs::symlink(cases.join(name), folder.path().join(name)).expect("links");
    }
    folder
}

/// Runs pinned cases, every `of`-th from the `part`-th on.
fn node_cases(part: usize, of: usize) {
    let Some(cases) = skip::variable("REFLEX_ONNX_CASES") else { return };
    let driver = StandIn::new();
    let list = include_str!("onnx/cuda.txt").lines().filter(|line| !line.starts_with('#'));
    let pinned: Vec<(&str, &str)> =
        list.filter_map(|line| line.split_once(' ')).skip(part).step_by(of).collect();
    let names: Vec<&str> = pinned.iter().map(|(_, name)| *name).collect();
    let folder = links(&PathBuf::from(cases), &names);
    let expect = folder.path().join("expected");
    let lines: Vec<String> =
        pinned.iter().map(|(status, name)| format!("{status} {name}\n")).collect();
    std::fs::write(&expect, lines.concat()).expect("writes");
    let (cases, expect) = (folder.path().to_str().unwrap(), expect.to_str().unwrap());
    let args = ["conformance", cases, "--device", "cuda", "--mode", "bytecode", "--expect", expect];
    let output = driver.run("seed=2", &args);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
}

#[test]
fn a_node_case_of_each_operator_passes_or_is_refused_as_pinned() {
    node_cases(0, 2);
}

#[test]
fn a_node_case_of_each_operator_passes_or_is_refused_as_pinned_too() {
    node_cases(1, 2);
}

#[test]
fn a_model_answers_as_onnx_runtime_does() {
    let Some(models) = skip::variable("REFLEX_MODELS") else { return };
    let Some(references) = skip::variable("REFLEX_REFS") else { return };
    let driver = StandIn::new();
    let model = PathBuf::from(models).join("surfaces_mlp.onnx");
    let npz = PathBuf::from(references).join("surfaces_mlp.rows.npz");
    let (model, npz) = (model.to_str().unwrap(), npz.to_str().unwrap());
    let args = ["check", model, "--npz", npz, "--device", "cuda", "--mode", "bytecode"];
    answer(&driver.run("seed=3", &args));
}

/// Compiles a model to a library, without a driver.
fn compile(model: &str, device: &str, to: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
    command.args(["compile", model, "--device", device, "-o"]).arg(to);
    command.env_remove("LD_LIBRARY_PATH").env_remove("REFLEX_PTXAS");
    answer(&command.output().expect("starts"));
}

/// A machine that can run a library and compile nothing.
fn deployed(driver: &StandIn, plan: &str, args: &[&str]) -> Output {
    driver.reflex(plan, args).env("REFLEX_CODEGEN", "/nowhere").output().expect("starts")
}

#[test]
fn a_library_for_a_gpu_runs_where_nothing_can_be_compiled() {
    let (driver, folder) = (StandIn::new(), tempfile::tempdir().expect("a folder"));
    let on_cpu = answer(&driver.run("", &["run", MLP]));
    let [gpu, both] = ["gpu.so", "both.so"].map(|name| folder.path().join(name));
    compile(MLP, "cuda", &gpu);
    compile(MLP, "cpu,cuda", &both);
    for file in [&gpu, &both].map(|path| path.to_str().unwrap()) {
        for (mode, plan) in [("bytecode", "seed=7"), ("compiled", ""), ("tiered", "sm=90")] {
            let args = ["run", file, "--device", "cuda:0", "--mode", mode, "--warm-up"];
            assert_eq!(answer(&deployed(&driver, plan, &args)), on_cpu, "{file} {mode}");
        }
    }
    let [gpu, both] = [&gpu, &both].map(|path| path.to_str().unwrap());
    assert_eq!(answer(&deployed(&driver, "", &["run", both])), on_cpu, "its program for CPUs");
    let refused = text(&deployed(&driver, "", &["run", gpu]).stderr);
    assert!(refused.contains("its kernels are for cuda:sm_80: load it for a device"), "{refused}");
    assert!(answer(&driver.run("", &["info", gpu])).contains("compiled by Reflex for cuda:sm_80"));
}

#[test]
fn what_does_not_fit_in_a_library_is_named() {
    let (driver, folder) = (StandIn::new(), tempfile::tempdir().expect("a folder"));
    let path = |name: &str| folder.path().join(name);
    let refused = |file: &Path, plan: &str| {
        let args = ["run", file.to_str().unwrap(), "--device", "cuda"];
        let output = deployed(&driver, plan, &args);
        assert!(!output.status.success(), "{} runs", file.display());
        text(&output.stderr)
    };
    compile(MLP, "cpu", &path("cpu.so"));
    let said = refused(&path("cpu.so"), "");
    assert!(said.contains("has no kernels for cuda:0; compile the model with --device"), "{said}");

    compile(MLP, "cuda:sm_90a", &path("hopper.so"));
    let said = refused(&path("hopper.so"), "sm=80");
    assert!(said.contains("is for sm_90a, and the device is sm_80"), "{said}");

    compile(MLP, "cuda", &path("gpu.so"));
    let file = std::fs::read(path("gpu.so")).unwrap();
    let at = |needle: &[u8]| file.windows(needle.len()).position(|part| part == needle).unwrap();
    let section = at(b"cuda:sm_80");
    // The name of the only kernel, as the host's part has it, before the PTX.
    let args = ["inspect", MLP, "--ptx", "--schedule-for", "cuda:sm_80"];
    let ptx = answer(&driver.run("", &args));
    let (_, name) = ptx.rsplit_once(".visible .entry ").expect("a kernel");
    let name = name.split('(').next().unwrap().trim();
    let host = section + last_place(&file[section..section + 400], name.as_bytes());
    for (what, at, byte, words) in [
        (
            "PTX",
            host + 600,
            file[host + 600] ^ 1,
            "its section for a GPU is damaged: the PTX of kernel",
        ),
        ("name", host, b'?', "CUDA_ERROR_NOT_FOUND"),
        ("version", section - 2, 99, "of another version of Reflex; compile it again"),
    ] {
        let mut damaged = file.clone();
        assert_ne!(damaged[at], byte);
        damaged[at] = byte;
        std::fs::write(path("damaged.so"), damaged).unwrap();
        let said = refused(&path("damaged.so"), "");
        assert!(said.contains(words), "{what}: {said}");
    }
}

/// A program that stands for `ptxas`, as a script.
fn assembler(folder: &Path, script: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("assembler");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("writes");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("sets rights");
    path
}

/// Compiles a model with an assembler.
fn compile_with(assembler: &Path, args: &[&str], to: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
    command.args(["compile", MLP]).args(args).arg("-o").arg(to).env("REFLEX_PTXAS", assembler);
    command.env_remove("LD_LIBRARY_PATH").output().expect("starts")
}

/// Sets its variables to the files of a call of `ptxas`.
const FILES: &str = "for arg; do case $arg in *.ptx) ptx=$arg;; *.cubin) cubin=$arg;; esac; done";

#[test]
fn a_cubin_for_the_device_is_loaded_before_ptx() {
    let Some(ptxas) = skip::variable("REFLEX_PTXAS") else { return };
    let (driver, folder) = (StandIn::new(), tempfile::tempdir().expect("a folder"));
    let (kept, ptxas) = (folder.path().join("kept"), ptxas.to_str().expect("text").to_owned());
    std::fs::create_dir(&kept).expect("a folder");
    // Keeps what was assembled, for the stand-in.
    let copies = format!("cp $ptx {0}/ && cp $cubin {0}/", kept.display());
    let keeping = assembler(folder.path(), &format!("{FILES}\n{ptxas} \"$@\" && {copies}"));
    let on_cpu = answer(&driver.run("", &["run", MLP]));
    let [gpu, both] = ["gpu.so", "both.so"].map(|name| folder.path().join(name));
    let made = compile_with(&keeping, &["--device", "cuda"], &gpu);
    answer(&made);
    assert!(!text(&made.stderr).contains("no ptxas"), "it is found");
    answer(&compile_with(&keeping, &["--device", "cpu,cuda", "--cubins", "sm_86"], &both));
    let info = |file: &Path| answer(&driver.run("", &["info", file.to_str().unwrap()]));
    let (of_gpu, of_both) = (info(&gpu), info(&both));
    assert!(of_gpu.contains("for cuda:sm_80, with cubins for sm_80 and sm_90"), "{of_gpu}");
    assert!(of_both.contains("and for cuda:sm_80, with cubins for sm_86"), "{of_both}");

    let known = format!("cubins={}", kept.display());
    let run = |file: &Path, plan: &str, jit: &str| {
        let args = ["run", file.to_str().unwrap(), "--device", "cuda:0", "--profile"];
        let mut command = driver.reflex(plan, &args);
        command.env("REFLEX_CODEGEN", "/nowhere").env("REFLEX_CUDA_JIT", jit);
        let output = command.env("REFLEX_LOG", "warn").output().expect("starts");
        assert_eq!(answer(&output), on_cpu, "{plan}");
        text(&output.stderr)
    };
    let (compiled, refused) = ("from PTX, which the driver compiled", "refused their cubins");
    for (file, sm, jit, words) in [
        (&gpu, 80, "", "from cubins for sm_80"),
        (&gpu, 89, "", "from cubins for sm_80"),
        (&gpu, 90, "", "from cubins for sm_90"),
        (&gpu, 90, "1", compiled),
        (&gpu, 100, "", compiled),
        (&both, 80, "", compiled),
        (&both, 86, "", "from cubins for sm_86"),
    ] {
        let said = run(file, &format!("{known};sm={sm}"), jit);
        assert!(said.contains(words) && !said.contains("instead of a cubin"), "{sm}: {said}");
    }
    // No machine code runs on the stand-in, which says what a driver says that has no code for it.
    let said = run(&gpu, "", "");
    for words in [refused, "compiles PTX instead of a cubin", "CUDA_ERROR_NO_BINARY_FOR_GPU"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    damaged_cubins_are_refused(&driver, &gpu, &known);
}

fn damaged_cubins_are_refused(driver: &StandIn, gpu: &Path, known: &str) {
    let refused = |file: &Path, plan: &str| {
        let args = ["run", file.to_str().unwrap(), "--device", "cuda"];
        let output = deployed(driver, plan, &args);
        assert!(!output.status.success());
        text(&output.stderr)
    };
    // An error that is not about versions is one.
    let said = refused(gpu, &format!("{known};fail=cuModuleLoadDataEx:1:2"));
    assert!(said.contains(" for sm_80: cuda:0: cuModuleLoadDataEx: CUDA_ERROR_OUT"), "{said}");
    let mut file = std::fs::read(gpu).expect("the library");
    // After the first architecture of the first function.
    let section = file.windows(10).position(|part| part == b"cuda:sm_80").expect("a section") + 10;
    let cubin = file[section..].windows(5).position(|part| part == b"sm_80").expect("a cubin");
    file[section + cubin + 500] ^= 1;
    let path = gpu.with_file_name("damaged.so");
    std::fs::write(&path, file).expect("writes");
    let said = refused(&path, known);
    let (before, after) = said.split_once("the cubin of kernel ").unwrap_or_default();
    assert!(before.contains("damaged") && after.contains(" for sm_80 is damaged"), "{said}");
}

#[test]
fn what_an_assembler_says_names_the_kernel() {
    let (driver, folder) = (StandIn::new(), tempfile::tempdir().expect("a folder"));
    let (file, cuda) = (folder.path().join("gpu.so"), ["--device", "cuda"]);
    let refused = |script: &str| {
        let output = compile_with(&assembler(folder.path(), script), &cuda, &file);
        assert!(!output.status.success() && !file.exists(), "{script}");
        text(&output.stderr)
    };
    let said = refused("echo 'ptxas fatal   : too hard' >&2; exit 255");
    assert!(said.contains("kernel ") && said.contains(" for sm_80: ptxas: ptxas fatal"), "{said}");
    let spill = "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads";
    let spilling =
        assembler(folder.path(), &format!("{FILES}\necho '{spill}' >&2; echo x > $cubin"));
    let output = compile_with(&spilling, &cuda, &file);
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("ptxas spills registers: 8 bytes"), "{said}");
    // Bytes that are no cubin never reach the driver, which is not told how many they are.
    let nonsense = assembler(folder.path(), &format!("{FILES}\necho x > $cubin"));
    answer(&compile_with(&nonsense, &cuda, &file));
    let output = deployed(&driver, "", &["run", file.to_str().unwrap(), "--device", "cuda"]);
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("has for sm_80 is no cubin"), "{said}");
    let said = text(&compile_with(Path::new("/nowhere/ptxas"), &cuda, &file).stderr);
    assert!(said.contains("REFLEX_PTXAS names no file: /nowhere/ptxas"), "{said}");
    let args = [&cuda[..], &["--cubins", "hopper"]].concat();
    let said = text(&compile_with(&nonsense, &args, &file).stderr);
    assert!(said.contains("\"hopper\" is no architecture of a GPU such as sm_90"), "{said}");
}

#[test]
fn without_an_assembler_the_driver_compiles() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("gpu.so");
    let compile = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
        command.args(["compile", MLP, "--device", "cuda", "-o"]).arg(&file).args(args);
        command.env("PATH", "/nowhere").env_remove("REFLEX_PTXAS").output().expect("starts")
    };
    let output = compile(&[]);
    answer(&output);
    let said = text(&output.stderr);
    assert_eq!(
        said.matches("the driver compiles PTX when the library is loaded").count(),
        1,
        "{said}"
    );
    let driver = StandIn::new();
    let info = answer(&driver.run("", &["info", file.to_str().unwrap()]));
    assert!(info.contains("for cuda:sm_80, as PTX without cubins"), "{info}");
    let output = compile(&["--cubins", "none"]);
    answer(&output);
    assert!(!text(&output.stderr).contains("ptxas"), "none are asked for");
    let said = text(&compile(&["--cubins", "sm_90"]).stderr);
    assert!(said.contains("cubins need ptxas, which is neither in REFLEX_PTXAS nor on"), "{said}");
}

/// The last place of `needle`.
fn last_place(bytes: &[u8], needle: &[u8]) -> usize {
    bytes.windows(needle.len()).rposition(|part| part == needle).expect("is there")
}

/// Exponentials of float64, which no GPU has code for, and a sum that one has.
const WIDE: &str = r#"
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float64"), y: R.Tensor((2, 3), dtype="float32")) -> R.Tuple(R.Tensor((2, 3), dtype="float64"), R.Tensor((2, 3), dtype="float32")):
        with R.dataflow():
            e: R.Tensor((2, 3), dtype="float64") = R.exp(x)
            s: R.Tensor((2, 3), dtype="float32") = R.add(y, y)
            both: R.Tuple(R.Tensor((2, 3), dtype="float64"), R.Tensor((2, 3), dtype="float32")) = (e, s)
            R.output(both)
        return both
"#;

#[test]
fn what_a_call_waits_for_is_counted_by_name() {
    let driver = StandIn::new();
    let waits = |model: &str, device: &str| {
        let output = driver.run("", &["run", model, "--profile", "--device", device]);
        answer(&output);
        let table = text(&output.stderr);
        let line = table.lines().find_map(|line| line.strip_prefix("waits for the device: "));
        line.map(str::to_owned)
    };
    assert_eq!(waits("tests/filetests/relax/branch.py", "cuda").as_deref(), Some("2 conditions"));
    assert_eq!(waits(MLP, "cuda"), None, "its calls are enqueued");
    assert_eq!(waits("tests/filetests/relax/branch.py", "cpu"), None);
}

#[test]
fn the_cpu_runs_what_the_device_has_no_code_for_if_it_may() {
    let (driver, folder) = (StandIn::new(), tempfile::tempdir().expect("a folder"));
    let model = folder.path().join("wide.py");
    std::fs::write(&model, WIDE).expect("writes");
    let model = model.to_str().unwrap();
    let on_cpu = answer(&driver.run("", &["run", model]));
    let refused = driver.run("", &["run", model, "--device", "cuda"]);
    assert!(!refused.status.success());
    let said = text(&refused.stderr);
    for words in ["kernel exp", "has no code for this kernel", "--allow-cpu"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let args = ["run", model, "--device", "cuda", "--allow-cpu"];
    let mut command = driver.reflex("seed=6", &args);
    let allowed = command.env("REFLEX_LOG", "warn").output().expect("starts");
    assert_eq!(answer(&allowed), on_cpu);
    let said = text(&allowed.stderr);
    assert!(said.contains("the CPU runs it") && said.contains("kernel=exp"), "{said}");
    assert!(!said.contains("kernel=add"), "the device has it: {said}");
    let profiled = driver.run("", &[&args[..], &["--profile"]].concat());
    let said = text(&profiled.stderr);
    let waits = "waits for the device: 2 arguments of kernels on the CPU";
    assert!(said.contains(waits), "its input and its output: {said}");
    // A library keeps both kinds.
    let file = folder.path().join("wide.so");
    let file = file.to_str().unwrap();
    answer(&driver.run("", &["compile", model, "--device", "cuda", "--allow-cpu", "-o", file]));
    assert_eq!(answer(&deployed(&driver, "seed=6", &["run", file, "--device", "cuda"])), on_cpu);
}

/// A tensor of another framework: float32 of a shape, at an address of the first device.
fn foreign(address: u64, shape: &'static [i64]) -> reflex::Tensor {
    use reflex_runtime::abi::{DLDevice, DLManagedTensorVersioned, DLTensor};
    unsafe extern "C" fn free(this: *mut DLManagedTensorVersioned) {
        // SAFETY: made by `foreign`, and called once.
        drop(unsafe { Box::from_raw(this) });
    }
    let tensor = DLTensor {
        data: std::ptr::without_provenance_mut(address as usize),
        device: DLDevice::cuda(0),
        ndim: shape.len() as i32,
        dtype: reflex::DType::F32,
        shape: shape.as_ptr().cast_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    // SAFETY: all of its fields are numbers and addresses, for which zeros are values.
    let mut managed: DLManagedTensorVersioned = unsafe { std::mem::zeroed() };
    managed.version.major = 1;
    managed.deleter = Some(free);
    managed.dl_tensor = tensor;
    let managed = std::ptr::NonNull::from(Box::leak(Box::new(managed)));
    // SAFETY: a managed tensor that this gives away, of memory that stays.
    unsafe { reflex::Tensor::from_dlpack_versioned(managed) }.expect("a tensor")
}

#[test]
fn a_session_is_in_the_order_of_the_hosts_stream() {
    use reflex_runtime::abi::DLDevice;
    use reflex_runtime::backend::{TVMFFIEnvGetStream, TVMFFIEnvSetStream};
    let driver = Driver::load();
    let values = |n: usize| (0..n).map(|i| i as f32 * 0.25 - 3.0).collect::<Vec<f32>>();
    let (x, w) = (values(32), values(40));
    let weights = reflex::Tensor::from_slice(&[8, 5], &w).unwrap();
    let run = |device: &str, x: reflex::Tensor| -> reflex::Tensor {
        let program = reflex::Engine::builder().device(device).build().unwrap().load(MLP).unwrap();
        let mut session = program.session(reflex::Mode::Bytecode).unwrap();
        let main = session.function_index("main").unwrap();
        let args = [x.into(), weights.clone().into()];
        let y = session.call_index(main, reflex::AnyView::slice(&args)).unwrap();
        // Their ends would wait for the device.
        std::mem::forget((session, program));
        y.downcast_ref::<reflex::Tensor>().expect("a tensor").clone()
    };
    let host = reflex::Tensor::from_slice(&[4, 8], &x).unwrap();
    let expected = run("cpu", host).to_vec::<f32>().unwrap();

    reflex::Engine::builder().device("cuda:0").build().unwrap();
    let (mut stream, mut address) = (0_u64, 0_u64);
    driver.call("cuStreamCreate", [(&raw mut stream).addr() as u64, 1, 0, 0]);
    driver.call("cuMemAlloc_v2", [(&raw mut address).addr() as u64, 128, 0, 0]);
    for is_known in [true, false] {
        let from = x.as_ptr().expose_provenance() as u64;
        driver.call("cuMemcpyHtoDAsync_v2", [address, from, 128, stream]);
        let handle = std::ptr::with_exposed_provenance_mut(stream as usize);
        // SAFETY: a stream of the driver, and no address for the one before.
        unsafe { TVMFFIEnvSetStream(2, 0, handle, std::ptr::null_mut()) };
        if is_known {
            // SAFETY: it has no obligations.
            assert_eq!(unsafe { TVMFFIEnvGetStream(2, 0) }, handle);
        } else {
            reflex_runtime::device::host_stream::set(DLDevice::cuda(0), None);
            driver.call("cuStreamSynchronize", [stream, 0, 0, 0]);
        }
        let y = run("cuda:0", foreign(address, &[4, 8]));
        let mut found = vec![0.0_f32; 20];
        let to = found.as_mut_ptr().expose_provenance() as u64;
        driver.call("cuMemcpyDtoHAsync_v2", [to, y.data_ptr().addr() as u64, 80, stream]);
        driver.call("cuStreamSynchronize", [stream, 0, 0, 0]);
        assert_eq!(found == expected, is_known, "a stream that is unknown waits for nothing");
    }
}

/// Calls with arguments of the same shapes become batches, whose answers are the interpreter's: with
/// other arguments in other places, results that are kept, and shapes by turns.
#[test]
fn calls_in_tiered_mode_are_batches() {
    use reflex::{AnyView, Engine, Mode, Tensor};
    let _driver = Driver::load();
    let program = |device: &str, model: &str| {
        Engine::builder().device(device).build().unwrap().load(model).unwrap()
    };
    let tensor = |shape: &[i64], seed: usize| {
        let count: i64 = shape.iter().product();
        let value = |i: i64| ((i as usize * 37 + seed * 11) % 29) as f32 * 0.125 - 1.5;
        Tensor::from_slice(shape, &(0..count).map(value).collect::<Vec<f32>>()).unwrap()
    };
    let (here, there) = (program("cpu", MLP), program("cuda:0", MLP));
    let mut expected = here.session(Mode::Bytecode).unwrap();
    let mut session = there.session(Mode::Tiered).unwrap();
    let (main, mut kept) = (session.function_index("main").unwrap(), vec![]);
    for call in 0..16 {
        let rows = if call % 2 == 0 { 4 } else { 7 };
        let args = [tensor(&[rows, 8], call).into(), tensor(&[8, 5], 3 * call).into()];
        let answer = expected.call_index(main, AnyView::slice(&args)).unwrap();
        let answer = answer.downcast_ref::<Tensor>().unwrap().to_vec::<f32>().unwrap();
        let found = session.call_index(main, AnyView::slice(&args)).unwrap();
        kept.push((found.downcast_ref::<Tensor>().unwrap().clone(), answer));
    }
    for (call, (found, answer)) in kept.iter().enumerate() {
        let found = found.to_host().unwrap().to_vec::<f32>().unwrap();
        assert_eq!(found, *answer, "call {call}");
    }
    let report = session.batches();
    let replays: Vec<u64> = report.ready.iter().map(|(_, _, replays)| *replays).collect();
    assert_eq!(replays, [4, 4], "{report}");

    // Several results, in one tuple.
    let reduce = "tests/cuda_check/programs/reduce.py";
    let (on_cpu, on_gpu) = (program("cpu", reduce), program("cuda:0", reduce));
    let mut expected = on_cpu.session(Mode::Bytecode).unwrap();
    let mut several = on_gpu.session(Mode::Tiered).unwrap();
    let results = |value: &reflex::Any| -> Vec<Vec<f32>> {
        let tuple = value.downcast_ref::<reflex::Tuple>().expect("a tuple");
        let tensor = |item: &reflex::Any| item.downcast_ref::<Tensor>().unwrap().to_host().unwrap();
        tuple.iter().map(|item| tensor(item).to_vec::<f32>().unwrap()).collect()
    };
    for call in 0..8 {
        let args = [tensor(&[19, 37], call).into()];
        let answer = expected.call_index(main, AnyView::slice(&args)).unwrap();
        let found = several.call_index(main, AnyView::slice(&args)).unwrap();
        assert_eq!(results(&found), results(&answer), "call {call}");
    }
    assert_eq!(several.batches().ready.len(), 1, "{}", several.batches());

    // An instrument, a deadline or fuel see every call: nothing is replayed.
    session.set_fuel(Some(1 << 20));
    let args = [tensor(&[4, 8], 1).into(), tensor(&[8, 5], 2).into()];
    session.call_index(main, AnyView::slice(&args)).unwrap();
    assert_eq!(session.batches(), report);
    // Other modes have none.
    let mut session = there.session(Mode::Bytecode).unwrap();
    for _ in 0..6 {
        session.call_index(main, AnyView::slice(&args)).unwrap();
    }
    assert!(session.batches().ready.is_empty());
}

/// A program that looks at values is interpreted, and says why.
#[test]
fn calls_that_wait_are_no_batches() {
    use reflex::{Array, DType, Engine, Feed, Mode};
    let _driver = Driver::load();
    let text = "from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(c: R.Tensor((), dtype=\"bool\"), x: R.Tensor((4,), dtype=\"float32\")) -> R.Tensor((4,), dtype=\"float32\"):
        if c:
            y: R.Tensor((4,), dtype=\"float32\") = R.add(x, x)
        else:
            y: R.Tensor((4,), dtype=\"float32\") = R.negative(x)
        return y
";
    let source = reflex::ModelSource::bytes(reflex::ModelFormat::Script, text);
    let program = Engine::builder().device("cuda:0").build().unwrap().load(source).unwrap();
    let mut session = program.session(Mode::Tiered).unwrap();
    for call in 0..8 {
        let condition =
            Array { dtype: DType::BOOL, shape: vec![], data: vec![u8::from(call % 3 == 0)] };
        let x = Array::of(&[4], &[1.0_f32, -2.0, 3.0, 0.5]).unwrap();
        let feed = Feed::from([("c".to_owned(), condition), ("x".to_owned(), x)]);
        let prepared = program.prepare("main", &feed).unwrap();
        let outputs = session.call(&prepared).unwrap().arrays().unwrap();
        let y = outputs[0].1.to_vec::<f32>().unwrap();
        let expected = if call % 3 == 0 { [2.0, -4.0, 6.0, 1.0] } else { [-1.0, 2.0, -3.0, -0.5] };
        assert_eq!(y, expected, "call {call}");
    }
    let report = session.batches();
    assert!(report.ready.is_empty(), "{report}");
    assert_eq!(report.refused.len(), 1, "{report}");
    assert_eq!(report.refused[0].1, "condition");
}
