//! The packages for Go, Java and JavaScript, by their own tests and examples. `./x bindings` installs what
//! they need and sets REFLEX_BINDINGS; elsewhere they are recorded as skipped.
//!
//! Decision: docs/decisions/0098-bindings.md

use std::path::{Path, PathBuf};
use std::process::Command;

use programs::{linked_libraries, run, skip};

#[path = "common/programs.rs"]
#[allow(dead_code, reason = "the examples use the rest")]
mod programs;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn package(name: &str) -> PathBuf {
    root().join("bindings").join(name)
}

/// The surroundings of a package under test: a folder of its own, the models, and a library that pkg-config finds.
struct Place {
    folder: PathBuf,
    models: PathBuf,
}

impl Place {
    fn new(name: &str) -> Option<Place> {
        skip::variable("REFLEX_BINDINGS")?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bindings-{name}"));
        let models = folder.join("models");
        std::fs::create_dir_all(&models).expect("a folder");
        let cases = root().join("bindings/tests");
        std::fs::copy(cases.join("values.py"), models.join("values.py")).expect("copies");
        run(Command::new("python3").arg(cases.join("linear.py")).arg(models.join("linear.onnx")));
        let (include, library) = (root().join("include"), linked_libraries());
        let (include, library) = (include.display(), library.display());
        let text = format!(
            "Name: Reflex\nDescription: the build under test\nVersion: {}\nCflags: -I{include}\n\
             Libs: -L{library} -Wl,-rpath,{library} -lreflex\n",
            env!("CARGO_PKG_VERSION")
        );
        std::fs::write(folder.join("reflex.pc"), text).expect("writes");
        Some(Place { folder, models })
    }

    fn linear(&self) -> PathBuf {
        self.models.join("linear.onnx")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        // Cargo's own search path comes first, where an older build may lie.
        command
            .env("LD_LIBRARY_PATH", linked_libraries())
            .env("PKG_CONFIG_PATH", &self.folder)
            .env("REFLEX_BINDING_MODELS", &self.models);
        command
    }
}

#[test]
fn the_package_for_go_passes_its_tests() {
    let Some(place) = Place::new("go") else { return };
    let go = || {
        let mut command = place.command("go");
        command.current_dir(package("go")).env("GODEBUG", "cgocheck=2").env("GOFLAGS", "-mod=mod");
        command
    };
    let format = run(Command::new("gofmt").arg("-l").arg(package("go")));
    assert!(format.is_empty(), "gofmt would change {format}");
    run(go().args(["vet", "./..."]));
    print!("{}", run(go().args(["test", "-count=1", "-v", "./..."])));
    let said = run(go().args(["run", "./example"]).arg(place.linear()));
    assert_eq!(said, "[2 2] [7.5 0 0 6.5]\nDONE!\n");
}

#[test]
fn the_package_for_java_passes_its_tests() {
    let Some(place) = Place::new("java") else { return };
    let (out, java) = (place.folder.join("out"), package("java"));
    run(place.command("sh").arg(java.join("build.sh")).arg(&out));
    let jar = out.join("reflex.jar");
    let runs = |source: &str, class: &str, arg: &Path| {
        let classes = out.join(class);
        let mut compiler = place.command("javac");
        compiler.args(["-Xlint:all", "-Werror", "-cp"]).arg(&jar).arg("-d").arg(&classes);
        run(compiler.arg(java.join(source)));
        let path = format!("{}:{}", jar.display(), classes.display());
        let library = format!("-Dreflex.library={}", out.join("libreflex_jni.so").display());
        let mut command = place.command("java");
        // A heap that is there from the start, so that what grows is not Java's.
        command.args(["-XX:+UseSerialGC", "-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch"]);
        command.args(["-Xcheck:jni", &library, "-cp", &path, class]).arg(arg);
        run(&mut command)
    };
    let said = runs("test/BindingTest.java", "BindingTest", &place.models);
    print!("{said}");
    assert!(said.ends_with("7 passed, 0 failed\n") && !said.contains("WARNING"), "{said}");
    let said = runs("example/Example.java", "Example", &place.linear());
    assert_eq!(said, "[2, 2] [7.5, 0.0, 0.0, 6.5]\nDONE!\n");
}

#[test]
fn the_package_for_javascript_passes_its_tests() {
    let Some(place) = Place::new("javascript") else { return };
    let folder = package("javascript");
    let within = |program: &str| {
        let mut command = place.command(program);
        command.current_dir(&folder);
        command
    };
    run(within("npm").args(["install", "--ignore-scripts", "--no-audit", "--no-fund"]));
    run(&mut within("./build.sh"));
    let said = run(within("node").args(["--expose-gc", "--test", "test/"]));
    print!("{said}");
    assert!(said.contains("# fail 0"), "{said}");
    let said = run(within("node").arg("example.js").arg(place.linear()));
    let array = "Float32Array(4) [ 7.5, 0, 0, 6.5 ]";
    assert_eq!(said, format!("[ 2, 2 ] {array}\nDONE!\n{array}\n"));
}

/// The example of a page is the program that the tests run.
#[test]
fn pages_quote_their_examples() {
    let examples = [
        ("go", "go", "example/main.go"),
        ("java", "java", "example/Example.java"),
        ("javascript", "js", "example.js"),
    ];
    for (name, language, file) in examples {
        let page = std::fs::read_to_string(package(name).join("README.md")).expect("a page");
        let source = std::fs::read_to_string(package(name).join(file)).expect("an example");
        let fence = format!("\n```{language}\n");
        let quoted = page.split(fence.as_str()).nth(1).and_then(|rest| rest.split("\n```").next());
        let quoted = quoted.unwrap_or_else(|| panic!("no example in the page for {name}"));
        for line in quoted.lines().map(str::trim) {
            assert!(source.lines().any(|s| s.trim() == line), "{name}: not in {file}: {line}");
        }
    }
}
