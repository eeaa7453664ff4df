//! The packages as their users meet them: what `./x install` and `./x wheel` make, used in an empty
//! folder with nothing of this repository on any path, and the Python module's behaviour and types.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use programs::{libraries, run, run_python, skip};
use reflex::Engine;

#[path = "common/programs.rs"]
#[allow(dead_code, reason = "the examples use the rest")]
mod programs;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A script of which everything is compiled, and that the examples run.
fn source() -> PathBuf {
    root().join("tests/filetests/relax/mlp.py")
}

/// A folder of the files that packages hold, as cargo has built them for this test.
fn built(folder: &Path) -> PathBuf {
    let built = folder.join("built");
    std::fs::create_dir(&built).expect("a folder");
    let command = Path::new(env!("CARGO_BIN_EXE_reflex"));
    let codegen = command.with_file_name("reflex-codegen");
    assert!(codegen.is_file(), "{} is not built; cargo build -p reflex-llvm", codegen.display());
    for file in [command, &codegen, &libraries().join("libreflex.so")] {
        let name = file.file_name().expect("a file");
        std::os::unix::fs::symlink(file, built.join(name)).expect("links");
    }
    built
}

/// A command that runs in `folder` and knows nothing of this repository.
fn outside(folder: &Path, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", folder).current_dir(folder);
    command
}

#[test]
fn an_installed_library_serves_c_programs_in_an_empty_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let (prefix, user) = (folder.path().join("prefix"), folder.path().join("user"));
    std::fs::create_dir(&user).expect("a folder");
    let mut install = Command::new(root().join("x"));
    run(install.arg("install").arg(&prefix).env("REFLEX_BUILD", built(folder.path())));
    for (from, to) in [(root().join("examples/mlp.c"), "mlp.c"), (source(), "mlp.py")] {
        std::fs::copy(from, user.join(to)).expect("copies");
    }
    // As README says it.
    let compile = "cc mlp.c $(pkg-config --cflags --libs reflex) -o mlp";
    let pkg_config = prefix.join("lib/pkgconfig");
    run(outside(&user, "sh").args(["-c", compile]).env("PKG_CONFIG_PATH", &pkg_config));
    // The same, but that it wants LLVM's kernels.
    let text = std::fs::read_to_string(user.join("mlp.c")).expect("reads");
    let wanting = text.replace("threshold=20", "threshold=20,kernels=llvm");
    assert_ne!(wanting, text);
    std::fs::write(user.join("llvm.c"), wanting).expect("writes");
    let compile = compile.replace("mlp", "llvm");
    run(outside(&user, "sh").args(["-c", &compile]).env("PKG_CONFIG_PATH", &pkg_config));
    let version = ["--modversion", "reflex"];
    let said = run(outside(&user, "pkg-config").args(version).env("PKG_CONFIG_PATH", &pkg_config));
    assert_eq!(said.trim(), env!("CARGO_PKG_VERSION"));
    let said = run(outside(&user, "./mlp").arg("mlp.py"));
    assert!(said.ends_with("done\n"), "{said}");
    let said = run(outside(&user, prefix.join("bin/reflex")).args(["info", "mlp.py"]));
    assert!(said.contains("float32[n, 8]"), "{said}");

    // The code generator is needed once a kernel is not in the cache and the policy wants LLVM's.
    std::fs::remove_file(prefix.join("bin/reflex-codegen")).expect("installed there");
    run(outside(&user, "./mlp").arg("mlp.py"));
    let refused = outside(&user, "./llvm").arg("mlp.py").env("REFLEX_CACHE", "empty").output();
    let said = String::from_utf8(refused.expect("starts").stderr).expect("UTF-8");
    let places = format!("neither in {}", prefix.join("lib").display());
    assert!(said.contains(&places) && said.contains("REFLEX_CODEGEN"), "{said}");

    // Without that policy, Cranelift compiles.
    let said = run(outside(&user, "./mlp").arg("mlp.py").env("REFLEX_CACHE", "empty"));
    assert!(said.ends_with("done\n"), "{said}");

    // One that dies at once is an error like others, and no signal that ends the program; Cranelift's
    // kernels stay where they are to be replaced.
    let dying = |program: &str| {
        let mut command = outside(&user, program);
        command.arg("mlp.py").env("REFLEX_CACHE", "other").env("REFLEX_CODEGEN", "/bin/true");
        command
    };
    let said = run(&mut dying("./mlp"));
    assert!(said.ends_with("done\n"), "{said}");
    for _ in 0..5 {
        let mut command = dying("./llvm");
        let refused = command.output().expect("starts");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{}: {said}", refused.status);
        assert!(said.contains("the process failed"), "{said}");
    }
}

/// Its list of versions is its own, so a new dependency of a crate has to be added there too.
#[test]
fn the_small_application_locks_what_it_builds_with() {
    let list = ["tree", "--locked", "--offline", "--all-features", "--depth", "1"];
    let manifest = ["--manifest-path", "tests/place/Cargo.toml"];
    let listed = Command::new(env!("CARGO")).args(list).args(manifest).current_dir(root()).output();
    let listed = listed.expect("cargo runs");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
}

#[test]
fn the_wheel_runs_in_an_empty_folder() {
    let Some(python) = skip::variable("REFLEX_TVM_PYTHON") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let [wheels, site, user] = ["wheels", "site", "user"].map(|name| folder.path().join(name));
    std::fs::create_dir(&user).expect("a folder");
    let mut wheel = Command::new(&python);
    wheel.args(["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w"]);
    run(wheel.arg(&wheels).arg(root()).env("REFLEX_BUILD", built(folder.path())));
    let made = std::fs::read_dir(&wheels).expect("a folder").next().expect("a wheel");
    let made = made.expect("an entry").path();
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target"]);
    run(install.arg(&site).arg(&made));
    std::fs::copy(source(), user.join("mlp.py")).expect("copies");
    let script = "
import importlib.metadata, os, reflex, numpy as np
print(os.path.dirname(reflex.__file__), reflex.__version__, importlib.metadata.version('reflex-engine'))
program = reflex.load('mlp.py')
y = program.session()['main'](np.ones((2, 8), 'float32'), np.ones((8, 5), 'float32'))
assert (np.asarray(y) == 9).all(), y
assert os.path.exists(os.path.join(os.path.dirname(reflex.__file__), 'py.typed'))
";
    let said = run(outside(&user, &python).args(["-c", script]).env("PYTHONPATH", &site));
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(said.trim(), format!("{} {version} {version}", site.join("reflex").display()));
}

#[test]
fn the_demo_runs_what_cargo_built_where_it_was_told_to() {
    let Some(models) = skip::variable("REFLEX_MODELS") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let [bin, target, data] = ["bin", "target", "data"].map(|name| folder.path().join(name));
    let script = |folder: &Path, name: &str, text: &str| {
        std::fs::create_dir_all(folder).expect("a folder");
        std::fs::write(folder.join(name), format!("#!/bin/sh\n{text}\n")).expect("writes");
        let runs = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.join(name), runs).expect("changes");
    };
    script(&bin, "cargo", "");
    script(&target.join("release/examples"), "magika", "echo \"$@\"");
    std::fs::create_dir(&data).expect("a folder");
    std::os::unix::fs::symlink(models, data.join("models")).expect("links");
    let mut demo = Command::new(root().join("x"));
    demo.args(["demo", "FILE"]).env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    let said = run(demo.env("CARGO_TARGET_DIR", &target).env("REFLEX_DATA", &data));
    assert_eq!(said.trim(), format!("--model {}/models/magika.onnx FILE", data.display()));
}

#[test]
fn python_passes_what_numpy_takes_and_names_what_it_refuses() {
    let model = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages-mlp.so");
    let loaded = Engine::new().and_then(|engine| engine.load(source()));
    loaded.and_then(|program| program.save(&model)).expect("compiles");
    let script = root().join("tests/python_interface.py");
    let Some(said) = run_python(&[&script, &model, &source()]) else { return };
    assert!(said.ends_with("done\n"), "{said}");
}

#[test]
fn modules_written_in_python_answer_as_numpy_and_tvm_do() {
    let Some(said) = run_python(&[&root().join("tests/python_nn.py")]) else { return };
    assert!(said.ends_with("done\n"), "{said}");
}

#[test]
fn the_python_types_are_sound() {
    let Some(python) = skip::variable("REFLEX_TVM_PYTHON") else { return };
    let mut check = Command::new(python);
    check.args(["-m", "mypy", "--strict", "--no-incremental", "--cache-dir=/dev/null"]);
    run(check.arg(root().join("python/reflex")));
}
