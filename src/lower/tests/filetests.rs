//! Text in, text out: every file of `tests/filetests/lower` holds a module and what a stage of
//! the pipeline leaves of it.
//!
//! A file is Python to a reader's editor: `# after: STAGE` (and `# precision: bf16`, `f32-fast` or `int8`,
//! `# amx`, `# gpu: cuda:sm_80`), the module, a line of dashes, and the module after the stage
//! (`bytecode` prints the executable; `schedule` and `lower` print every kernel, by name; `steps`
//! prints how each was scheduled), or `# error: ...`. The CPU is a fixed one with AVX2, or what the
//! lines ask for. `REFLEX_BLESS=1` writes the outcomes that were observed.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use reflex_graph::script::parse;
use reflex_lower::LowerError;
use reflex_lower::pipeline::{Observer, Options, StageOutput, run_bytecode, run_graph, run_kernel};
use reflex_lower::precision::Precision;
use reflex_lower::schedule::schedule_for;
use reflex_tir::codegen::CpuTarget;
use reflex_tir::level::Level;

const DASHES: &str = "# ----\n";

/// A CPU with 32-byte vectors, or one with AVX512_BF16 or AMX where that is asked for, whatever
/// machine the test runs on.
fn target(precision: Precision, amx: bool) -> CpuTarget {
    if precision == Precision::Bf16 || amx {
        let mut target = Level::V4.target();
        target.features.insert("avx512bf16".to_owned());
        let more: &[&str] =
            if amx { &["avx512vnni", "amx-tile", "amx-bf16", "amx-int8"] } else { &[] };
        target.features.extend(more.iter().map(|f| (*f).to_owned()));
        return target;
    }
    CpuTarget {
        triple: "x86_64-unknown-linux-gnu".to_owned(),
        features: ["avx2", "fma"].map(str::to_owned).into(),
        vector_bytes: 32,
        l1d_bytes: 32 << 10,
        l2_bytes: 1 << 20,
    }
}

/// Keeps the texts of one stage.
struct Keep<'a> {
    stage: &'a str,
    texts: Mutex<Vec<String>>,
}

impl Observer for Keep<'_> {
    fn after(&self, stage: &str, _: Duration, result: StageOutput<'_>) {
        if stage != self.stage {
            return;
        }
        let text = match result {
            StageOutput::Graph(module) => reflex_graph::print::module(module),
            StageOutput::Bytecode(code) => reflex_vm::text::as_text(&code.executable),
            StageOutput::Kernel(func) => reflex_tir::script::print(func),
        };
        self.texts.lock().expect("printing does not panic").push(text);
    }
}

fn outcome(input: &str, name: &str) -> String {
    let stage = input.lines().find_map(|l| l.strip_prefix("# after: ")).expect("a stage");
    let module = parse(input, name).expect("a module");
    let keep = Keep { stage, texts: Mutex::default() };
    let precision = match input.lines().find_map(|l| l.strip_prefix("# precision: ")) {
        Some("bf16") => Precision::Bf16,
        Some("f32-fast") => Precision::F32Fast,
        Some("int8") => Precision::Int8,
        Some(other) => panic!("{name}: precision {other}"),
        None => Precision::F32,
    };
    let amx = input.contains("# amx\n");
    let gpu = input.lines().find_map(|l| l.strip_prefix("# gpu: "));
    let mut options = Options { precision, ..Options::new(target(precision, amx)) };
    options.schedule_for = gpu.map(|name| name.parse().expect("a GPU"));
    let scheduled_for = options.target(&options.cpus[0]);
    let run = || -> Result<(), LowerError> {
        let module = run_graph(module, &options, &keep)?;
        let (_, kernels) = run_bytecode(module, &keep)?;
        if stage == "steps" {
            let steps = kernels.iter().map(|k| schedule_for(k, &scheduled_for).to_string());
            keep.texts.lock().expect("printing does not panic").extend(steps);
        }
        kernels.iter().for_each(|kernel| drop(run_kernel(kernel, &scheduled_for, &keep)));
        Ok(())
    };
    let failed = run().err().map(|e| format!("# error: {e}\n"));
    let mut texts = keep.texts.into_inner().expect("printing does not panic");
    texts.sort();
    failed.unwrap_or_else(|| {
        assert!(!texts.is_empty(), "{name}: no stage `{stage}`");
        texts.iter().map(|t| format!("{}\n", t.trim_end())).collect()
    })
}

#[test]
fn stages_leave_what_the_files_say() {
    let bless = std::env::var_os("REFLEX_BLESS").is_some();
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/filetests/lower");
    let mut paths: Vec<PathBuf> = fs::read_dir(&dir)
        .expect("the directory of cases")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no case in {}", dir.display());
    for path in paths {
        let text = fs::read_to_string(&path).expect("a readable case");
        let (input, expected) = text.split_once(DASHES).unwrap_or((&text, ""));
        let observed = outcome(input, &path.display().to_string());
        if bless {
            fs::write(&path, format!("{input}{DASHES}{observed}")).expect("a writable case");
        } else {
            assert_eq!(observed, expected, "{} (REFLEX_BLESS=1 accepts)", path.display());
        }
    }
}
