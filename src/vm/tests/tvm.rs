//! Programs that TVM exported: read, printed, written back byte for byte, and run.
//!
//! They are made by the Python interpreter that `REFLEX_TVM_PYTHON` names; the tests
//! are recorded as skipped where the variable is not set.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use reflex_runtime::array::Array;
use reflex_runtime::dtype::DType;
use reflex_runtime::library::Library;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;
use reflex_vm::builder::ExecBuilder;
use reflex_vm::bytecode::Reg;
use reflex_vm::executable::{ConstData, Executable, TensorConst};
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::verify::verify;
use reflex_vm::{listing, serialize, text};

/// The folder with the exported programs, or None, recorded as a skip.
fn exported() -> Option<&'static Path> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let python = python()?;
    Some(BUILT.get_or_init(|| export(&python)))
}

fn python() -> Option<OsString> {
    skip::variable("REFLEX_TVM_PYTHON")
}

fn export(python: &OsStr) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tvm-small-modules");
    let status = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tvm/modules.py"))
        .args([folder.as_os_str(), "--small".as_ref()])
        .status()
        .unwrap();
    assert!(status.success(), "TVM could not export the programs");
    folder
}

/// Names of the exported programs, with TVM's mode.
fn names(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let names = files.map(|name| name.into_string().unwrap());
    let mut names: Vec<_> =
        names.filter_map(|name| name.strip_suffix(".so").map(str::to_owned)).collect();
    names.sort();
    names
}

fn open(folder: &Path, name: &str) -> Library {
    // SAFETY: TVM has just built the library, and the test trusts its code.
    unsafe { Library::open(&folder.join(format!("{name}.so"))) }.unwrap()
}

fn blob(library: &Library) -> &[u8] {
    let module = library.bundle().unwrap().find("relax.VMExecutable").unwrap();
    library.bundle_bytes(module.bytes.clone())
}

fn session(folder: &Path, name: &str) -> Session {
    let library = open(folder, name);
    let exec = serialize::from_bytes(blob(&library)).unwrap();
    let program = Program::load(verify(exec).unwrap(), &[&library]).unwrap();
    Session::new(&Arc::new(program), Options::default()).unwrap()
}

fn scalar(value: f32) -> Any {
    Tensor::from_slice(&[1], &[value]).unwrap().into()
}

fn floats(value: Any) -> Vec<f32> {
    Tensor::try_from(value).unwrap().to_vec::<f32>().unwrap()
}

#[test]
fn what_tvm_wrote_is_read_printed_and_written_back() {
    let Some(folder) = exported() else { return };
    let names = names(folder);
    assert!(names.len() >= 80, "{} programs", names.len());
    for name in &names {
        let library = open(folder, name);
        let bytes = blob(&library);
        let exec: Executable = serialize::from_bytes(bytes).unwrap();
        assert_eq!(serialize::to_bytes(&exec), bytes, "{name}");
        let printed =
            |suffix: &str| std::fs::read_to_string(folder.join(format!("{name}.{suffix}")));
        assert_eq!(text::as_text(&exec), printed("txt").unwrap(), "{name}");
        // TVM takes two characters too many off an empty shape.
        let stats = printed("stats").unwrap().replace("shapetupl]", "shapetuple[]");
        assert_eq!(text::stats(&exec), stats, "{name}");
        let read = listing::parse(&listing::print(&exec)).unwrap_or_else(|e| panic!("{name}: {e}"));
        // The text lists code in the order of the function table, which TVM does not keep.
        assert_eq!(listing::print(&read), listing::print(&exec), "{name}");
        assert_eq!(text::as_text(&read), text::as_text(&exec), "{name}");
        assert!(text::as_rust(&exec).contains("ExecBuilder::new()"), "{name}");
    }
}

#[test]
fn the_python_form_of_what_tvm_wrote_rebuilds_it() {
    let (Some(folder), Some(python)) = (exported(), python()) else { return };
    let rebuilt = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tvm-rebuilt");
    std::fs::create_dir_all(&rebuilt).unwrap();
    for name in names(folder).iter().filter(|name| name.ends_with(".bytecode")) {
        let library = open(folder, name);
        let exec: Executable = serialize::from_bytes(blob(&library)).unwrap();
        std::fs::write(rebuilt.join(format!("{name}.bin")), blob(&library)).unwrap();
        std::fs::write(rebuilt.join(format!("{name}.txt")), text::as_text(&exec)).unwrap();
        std::fs::write(rebuilt.join(format!("{name}.py")), text::as_python(&exec)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tvm/rebuild.py");
    let output = Command::new(python).arg(script).arg(&rebuilt).output().unwrap();
    let (said, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{error}");
}

#[test]
fn kernels_and_memory_of_tvm_programs_work() {
    let Some(folder) = exported() else { return };
    let mut s = session(folder, "chain.compiled");
    for _ in 0..3 {
        assert_eq!(floats(s.call("main", &[scalar(5.0)]).unwrap()), [7.0]);
    }
    let error = s.call("main", &[Any::from(3_i64)]).unwrap_err();
    assert_eq!(error.error().kind(), "TypeError");
    let mut s = session(folder, "chain.bytecode");
    for _ in 0..3 {
        assert_eq!(floats(s.call("main", &[scalar(5.0)]).unwrap()), [7.0]);
    }
    let error = s.call("main", &[Tensor::zeros(&[1], DType::I32).unwrap().into()]).unwrap_err();
    assert_eq!(error.error().kind(), "ValueError");
    assert!(error.to_string().contains("param=x"), "{error}");
    let error = s.call("main", &[Any::from(3_i64)]).unwrap_err();
    assert_eq!(error.error().kind(), "TypeError");
    let error = s.call("main", &[]).unwrap_err();
    assert!(error.to_string().contains("`main` expects 1 argument (x), 0 given"), "{error}");
}

#[test]
fn recursion_and_backward_jumps_go_as_deep_as_asked() {
    let Some(folder) = exported() else { return };
    for name in ["recursion.bytecode", "goto.bytecode"] {
        let mut s = session(folder, name);
        let turns = 100_000_i64;
        let n = Tensor::from_slice(&[1], &[turns]).unwrap();
        let c = Tensor::zeros(&[], DType::BOOL).unwrap();
        let result = s.call("main", &[n.into(), c.into(), scalar(0.0)]).unwrap();
        assert_eq!(floats(result), [turns as f32], "{name}");
    }
}

/// TVM compiles this program so that the false branch uses a storage which only the
/// true branch allocates; its own interpreter ends in a segmentation fault there.
#[test]
fn a_miscompiled_branch_is_an_error_that_names_the_place() {
    let Some(folder) = exported() else { return };
    let mut s = session(folder, "branches.bytecode");
    let x = Tensor::from_slice(&[2, 3], &[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    let mut call = |condition: u8| {
        let c = Tensor::from_bytes(&[], DType::BOOL, &[condition]).unwrap();
        s.call("main", &[c.into(), x.clone().into()])
    };
    let result = Tensor::try_from(call(1).unwrap()).unwrap();
    assert_eq!(result.shape(), [6]);
    assert_eq!(result.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let error = call(0).unwrap_err();
    assert_eq!(error.error().kind(), "TypeError");
    assert_eq!(error.frames()[0].callee.as_deref(), Some("vm.builtin.alloc_tensor"));
    assert!(!x.is_shared(), "the failed run released its arguments");
}

/// Code of TVM's compiled mode calls itself through the VM, on the native stack: a
/// hundred levels work, a million are an error.
#[test]
fn compiled_mode_recursion_is_bounded() {
    let Some(folder) = exported() else { return };
    let mut s = session(folder, "recursion.compiled");
    let mut call = |turns: i64| {
        let n = Tensor::from_slice(&[1], &[turns]).unwrap();
        let c = Tensor::zeros(&[], DType::BOOL).unwrap();
        s.call("main", &[n.into(), c.into(), scalar(0.0)])
    };
    assert_eq!(floats(call(100).unwrap()), [100.0]);
    let error = call(1_000_000).unwrap_err();
    assert_eq!(error.error().kind(), "RecursionError");
    assert_eq!(floats(call(100).unwrap()), [100.0]);
}

#[test]
fn symbolic_shapes_empty_tuples_and_closures_run() {
    let Some(folder) = exported() else { return };
    for mode in ["bytecode", "compiled"] {
        symbolic(session(folder, &format!("symbolic.{mode}")));
        let mut s = session(folder, &format!("empty.{mode}"));
        assert_eq!(floats(s.call("main", &[scalar(2.0)]).unwrap()), [2.0]);
    }
}

fn symbolic(mut s: Session) {
    for (n, m) in [(2, 5), (7, 1), (1, 1)] {
        let x = Tensor::zeros(&[n, m], DType::F32).unwrap();
        let y = Tensor::try_from(s.call("main", &[x.into()]).unwrap()).unwrap();
        assert_eq!(y.shape(), [m, n]);
    }
    let error = s.call("main", &[Tensor::zeros(&[2], DType::F32).unwrap().into()]).unwrap_err();
    assert!(error.to_string().contains("ndim 2 but get 1"), "{error}");
    let pair = s.call("closure", &[scalar(1.0), scalar(2.0)]).unwrap();
    let pair = Array::try_from(pair).unwrap();
    assert_eq!((floats(pair[0].clone()), floats(pair[1].clone())), (vec![2.0], vec![1.0]));
}

/// `main(n, x)`: counts `n` down in a loop, looks at `x`, and returns a bit of everything.
fn built_here() -> Executable {
    let mut b = ExecBuilder::new();
    b.function("pass", 1).unwrap();
    b.emit_call("vm.builtin.copy", &[b.r(0)], b.r(1)).unwrap();
    b.emit_ret(Reg(1)).unwrap();
    b.end_function().unwrap();
    b.function("main", 2).unwrap();
    let (dtype, at) = (b.dtype(DType::F32), b.string("in \"main\"\n"));
    let data = ConstData::copy_of(&[0, 0, 0x80, 0x3F, 0, 0, 0, 0x40]);
    let tensor = b.tensor(TensorConst { dtype: DType::F32, shape: [2].into(), data });
    let imm = |v: i64| b.imm(v).unwrap();
    let (one, two, three) = (imm(1), imm(2), imm(3));
    let check = [b.r(1), two, dtype, at];
    b.emit_call("vm.builtin.check_tensor_info", &check, Reg::VOID).unwrap();
    b.emit_call("vm.builtin.alloc_shape_heap", &[b.vm_state(), three], b.r(2)).unwrap();
    let bind = [b.r(1), b.r(2), two, one, one, imm_at(0), three, at];
    b.emit_call("vm.builtin.match_shape", &bind, Reg::VOID).unwrap();
    let skip = b.label().unwrap();
    b.emit_call("vm.builtin.read_if_cond", &[b.r(0)], b.r(3)).unwrap();
    b.emit_if(Reg(3), skip).unwrap();
    b.emit_call("vm.builtin.null_value", &[], b.r(3)).unwrap();
    b.bind(skip).unwrap();
    let made = [b.r(2), two, one, one, imm_at(0), imm_at(-7)];
    b.emit_call("vm.builtin.make_shape", &made, b.r(4)).unwrap();
    let kept = b.f("pass");
    b.emit_call("vm.builtin.invoke_closure", &[b.vm_state(), kept, b.r(0)], b.r(5)).unwrap();
    b.emit_call("pass", &[tensor], b.r(6)).unwrap();
    let (large, half) = (b.int(i64::MIN), b.float(0.5));
    b.emit_call("vm.builtin.make_tuple", &[large, half], b.r(7)).unwrap();
    b.emit_call("vm.builtin.make_tuple", &[b.r(5), b.r(4), b.r(6), at], b.r(8)).unwrap();
    b.emit_ret(Reg(8)).unwrap();
    b.end_function().unwrap();
    b.finish().unwrap()
}

fn imm_at(value: i64) -> reflex_vm::bytecode::Arg {
    reflex_vm::bytecode::Arg::Imm(value)
}

/// Ten thousand changes of real files: each is refused, or runs within its fuel to a result or an
/// error. Native functions of TVM's compiled mode trust their constants, so bytecode alone runs.
#[test]
fn changed_files_of_tvm_are_refused_or_safe() {
    const CHANGES: usize = 10_000;
    let Some(folder) = exported() else { return };
    let names: Vec<String> =
        names(folder).into_iter().filter(|name| name.ends_with(".bytecode")).collect();
    let each = CHANGES.div_ceil(names.len());
    let (mut state, mut refused, mut ran) = (0x9E37_79B9_7F4A_7C15_u64, 0, 0);
    let mut random = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound as u64) as usize
    };
    for name in &names {
        let library = open(folder, name);
        let original = blob(&library).to_vec();
        for _ in 0..each {
            let mut bytes = original.clone();
            if random(8) == 0 {
                bytes.truncate(random(original.len()));
            } else {
                bytes[random(original.len())] ^= 1 << random(8);
            }
            let Ok(exec) = serialize::from_bytes(&bytes) else {
                refused += 1;
                continue;
            };
            let Ok(verified) = verify(exec) else {
                refused += 1;
                continue;
            };
            let Ok(program) = Program::load(verified, &[&library]) else {
                refused += 1;
                continue;
            };
            let options = Options { stack_slots: 1 << 16, depth_limit: 1000, ..Options::default() };
            let mut s = Session::new(&Arc::new(program), options).unwrap();
            let functions = s.program().executable().functions.clone();
            for f in functions.iter().filter(|f| (0..=8).contains(&f.num_args)) {
                let args: Vec<Any> = (0..f.num_args)
                    .map(|_| Tensor::zeros(&[2, 3][..random(3)], DType::F32).unwrap().into())
                    .collect();
                s.set_fuel(Some(1000));
                // An answer of either kind; the memory of a large one is given back.
                drop(s.call(&f.name, &args));
                ran += 1;
            }
        }
    }
    println!("{refused} refused, {ran} calls");
    assert!(refused > CHANGES / 10 && ran > CHANGES / 10, "{refused} refused, {ran} calls");
}

#[path = "../../../tests/common/skip.rs"]
mod skip;
mod generated {
    include!("generated/built_here.rs");
}

mod pool {
    include!("generated/pool.rs");
}

/// `REFLEX_BLESS=1` rewrites the generated file `name`, which was made of `of`.
fn same_rust_form(exec: &Executable, name: &str, of: &str, build: fn() -> Executable) {
    let code = format!("// What `as_rust` makes of {of}.\n\n{}", text::as_rust(exec));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/generated").join(name);
    if std::env::var_os("REFLEX_BLESS").is_some() {
        std::fs::write(&path, &code).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), code, "REFLEX_BLESS=1 rewrites it");
    assert_eq!(serialize::to_bytes(&build()), serialize::to_bytes(exec));
}

#[test]
fn the_rust_form_rebuilds_what_it_was_made_from() {
    let build = || generated::build().unwrap();
    same_rust_form(&built_here(), "built_here.rs", "`built_here` in `tests/tvm.rs`", build);
}

/// Tensors of every element type among them, from TVM's own bytes.
#[test]
fn the_rust_form_has_every_constant_that_tvm_writes() {
    let Some(folder) = exported() else { return };
    let exec = serialize::from_bytes(blob(&open(folder, "pool.bytecode"))).unwrap();
    let build = || pool::build().unwrap();
    same_rust_form(&exec, "pool.rs", "TVM's `pool` in `tests/tvm/subjects.py`", build);
}

#[test]
fn what_is_built_here_runs_in_tvm_and_its_python_form_rebuilds_it() {
    let Some(python) = python() else { return };
    let exec = built_here();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (blob, code) = (folder.join("built_here.bin"), folder.join("built_here.py"));
    std::fs::write(&blob, serialize::to_bytes(&exec)).unwrap();
    std::fs::write(&code, text::as_python(&exec)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tvm/run_blob.py");
    let output = Command::new(python).arg(script).arg(&blob).arg(&code).output().unwrap();
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(said, "3 [2, -7] [1.0, 2.0] in \"main\"\n\nsame\n", "{complained}");

    let program = Arc::new(Program::load(verify(exec).unwrap(), &[]).unwrap());
    let mut s = Session::new(&program, Options::default()).unwrap();
    let x = Tensor::zeros(&[2, 3], DType::F32).unwrap();
    let result = Array::try_from(s.call("main", &[Any::from(3_i64), x.into()]).unwrap()).unwrap();
    assert_eq!(i64::try_from(&result[0]).unwrap(), 3);
    assert_eq!(floats(result[2].clone()), [1.0, 2.0]);
}
