//! Text in, text out: every file of `tests/filetests/tir` holds steps, a function and what
//! becomes of it.
//!
//! A file is Python to a reader's editor: `# step: ...` lines, the function, a line of dashes, and
//! the outcome, which is the function after the steps, `# error: ...` when the text is refused, or
//! `# refused: ...` followed by the function where a step is. A step is the name of a primitive and
//! its operands; a loop is `block:0`, counted from outside. `pass NAME` runs a lowering pass,
//! `lower` all of them, `lower_gpu` those of a GPU too. `REFLEX_BLESS=1` writes the outcomes that
//! were observed.

use std::fs;
use std::path::PathBuf;

use reflex_tir::schedule::{Schedule, ScheduleError};
use reflex_tir::script::{parse, print};
use reflex_tir::verify::{IrForm, verify};
use reflex_tir::{Expr, Scope, Stmt, Var, lower, tensor_intrin};

const DASHES: &str = "# ----\n";

/// The operands of a step, taken one by one.
struct Operands<'a> {
    words: std::str::SplitWhitespace<'a>,
    schedule: Schedule,
}

impl<'a> Operands<'a> {
    fn word(&mut self) -> &'a str {
        self.words.next().expect("an operand is missing")
    }

    fn number(&mut self) -> i64 {
        self.word().parse().expect("a number")
    }

    fn loops(&mut self) -> Result<Vec<Var>, ScheduleError> {
        let words: Vec<&str> = self.words.by_ref().collect();
        words.iter().map(|w| self.loop_of(w)).collect()
    }

    fn one_loop(&mut self) -> Result<Var, ScheduleError> {
        let word = self.word();
        self.loop_of(word)
    }

    fn loop_of(&self, word: &str) -> Result<Var, ScheduleError> {
        let (block, index) = word.split_once(':').expect("a loop as block:index");
        let loops = self.schedule.get_loops(block)?;
        Ok(loops[index.parse::<usize>().expect("a loop's index")])
    }

    fn scope(&mut self) -> Scope {
        match self.word() {
            "global" => Scope::Global,
            "local" => Scope::Local,
            "shared" => Scope::Shared,
            "tile" => Scope::Tile,
            other => panic!("unknown scope `{other}`"),
        }
    }

    fn buffer(&mut self) -> reflex_tir::Buffer {
        let name = self.word();
        let mut buffers = self.schedule.func().buffers.iter();
        buffers.find(|(_, data)| data.name == name).expect("a buffer's name").0
    }
}

/// Applies one step; the schedule is returned also when it was refused.
fn apply(step: &str, schedule: Schedule) -> (Schedule, Result<(), ScheduleError>) {
    let mut words = step.split_whitespace();
    let name = words.next().expect("a step has a name");
    let mut o = Operands { words, schedule };
    let outcome = run(name, &mut o);
    (o.schedule, outcome)
}

fn run(name: &str, o: &mut Operands<'_>) -> Result<(), ScheduleError> {
    match name {
        "split" => {
            let (at, factor) = (o.one_loop()?, o.number());
            o.schedule.split(at, factor)?;
        }
        "split_nparts" => {
            let (at, parts) = (o.one_loop()?, o.number());
            o.schedule.split_nparts(at, parts)?;
        }
        "fuse" => {
            let loops = o.loops()?;
            o.schedule.fuse_all(&loops)?;
        }
        "fuse_adjacent" => {
            let (first, second) = (o.one_loop()?, o.one_loop()?);
            o.schedule.fuse_adjacent(first, second)?;
        }
        "distribute_loops" => {
            let at = o.one_loop()?;
            o.schedule.distribute_loops(at)?;
        }
        "reorder" => {
            let loops = o.loops()?;
            o.schedule.reorder(&loops)?;
        }
        "vectorize" | "parallel" | "unroll" => {
            let at = o.one_loop()?;
            match name {
                "vectorize" => o.schedule.vectorize(at)?,
                "parallel" => o.schedule.parallel(at)?,
                _ => o.schedule.unroll(at)?,
            }
        }
        "bind" => {
            let (at, axis) = (o.one_loop()?, o.word().parse().expect("a thread axis"));
            o.schedule.bind(at, axis)?;
        }
        "tensorize" => {
            let (at, wanted) = (o.one_loop()?, o.word());
            let all = tensor_intrin::all();
            let intrinsic = all.into_iter().find(|i| i.name == wanted).expect("an intrinsic");
            o.schedule.tensorize(at, intrinsic)?;
        }
        "partition" => {
            let (at, multiple) = (o.one_loop()?, o.number());
            let extent: Expr = o.schedule.get_loop(at)?.extent.clone();
            o.schedule.partition(at, extent.floordiv(multiple) * multiple)?;
        }
        "pass" => {
            let wanted = o.word();
            let all =
                [lower::PASSES, lower::GPU_PASSES, lower::DEVICE_PASSES, lower::SERIAL_PASSES]
                    .concat();
            let (_, pass) = all.iter().find(|(n, _)| *n == wanted).expect("a pass");
            o.schedule = Schedule::new(pass(o.schedule.func()));
        }
        "lower" => o.schedule = Schedule::new(lower::lower(o.schedule.func())),
        "lower_gpu" => o.schedule = Schedule::new(lower::lower_gpu(o.schedule.func())),
        _ => return run_on_block(name, o),
    }
    Ok(())
}

fn run_on_block(name: &str, o: &mut Operands<'_>) -> Result<(), ScheduleError> {
    let block = o.word();
    match name {
        "compute_inline" => o.schedule.compute_inline(block),
        "reverse_compute_inline" => o.schedule.reverse_compute_inline(block),
        "compute_at" => {
            let at = o.one_loop()?;
            o.schedule.compute_at(block, at)
        }
        "reverse_compute_at" => {
            let at = o.one_loop()?;
            o.schedule.reverse_compute_at(block, at)
        }
        "cache_read" => {
            let (buffer, scope) = (o.buffer(), o.scope());
            o.schedule.cache_read(block, buffer, scope).map(|_| ())
        }
        "cache_read_at" => {
            let wanted = o.word();
            let reads = o.schedule.get_block(block)?.reads.iter().map(|r| r.buffer);
            let named = |b: &reflex_tir::Buffer| o.schedule.func().buffers[*b].name == wanted;
            let buffer = { reads }.find(named).expect("a buffer that it reads");
            let (at, scope) = (o.one_loop()?, o.scope());
            o.schedule.cache_read_at(block, buffer, at, scope).map(|_| ())
        }
        "unroll_and_jam" => {
            let at = o.one_loop()?;
            o.schedule.unroll_and_jam(block, at)
        }
        "cache_write" => {
            let scope = o.scope();
            o.schedule.cache_write(block, scope).map(|_| ())
        }
        "set_scope" => {
            let scope = o.scope();
            o.schedule.set_scope(block, scope)
        }
        "decompose_reduction" => {
            let at = o.one_loop()?;
            o.schedule.decompose_reduction(block, at).map(|_| ())
        }
        "rfactor" => {
            let at = o.one_loop()?;
            o.schedule.rfactor(block, at).map(|_| ())
        }
        "tree_reduce" => {
            let at = o.one_loop()?;
            o.schedule.tree_reduce(block, at).map(|_| ())
        }
        "separate_full_tiles" => {
            let at = o.one_loop()?;
            o.schedule.separate_full_tiles(block, at).map(|_| ())
        }
        "cache_write_at" => {
            let (at, scope) = (o.one_loop()?, o.scope());
            o.schedule.cache_write_at(block, at, scope).map(|_| ())
        }
        "store_at" => {
            let (at, scope) = (o.one_loop()?, o.scope());
            o.schedule.store_at(block, at, scope)
        }
        "annotate_block" => {
            let (key, value) = (o.word(), o.word());
            o.schedule.annotate_block(block, key, value)
        }
        other => panic!("unknown step `{other}`"),
    }
}

fn outcome(text: &str) -> String {
    let steps = text.lines().filter_map(|l| l.strip_prefix("# step: "));
    let mut schedule = match parse(text) {
        Ok(func) => Schedule::new(func),
        Err(error) => return format!("# error: {error}\n"),
    };
    let mut head = String::new();
    for step in steps {
        let (after, done) = apply(step, schedule);
        schedule = after;
        if let Err(refused) = done {
            head.push_str(&format!("# refused: {refused}\n"));
        }
    }
    let func = schedule.func();
    let mut form = IrForm::Lowered;
    func.body.visit(&mut |s| {
        if matches!(s, Stmt::Block(_)) {
            form = IrForm::Scheduled;
        }
    });
    assert_eq!(verify(func, form), Ok(()), "{}", print(func));
    head + &print(func)
}

#[test]
fn outcomes_are_as_the_files_say() {
    let bless = std::env::var_os("REFLEX_BLESS").is_some();
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/filetests/tir");
    let mut paths: Vec<PathBuf> = fs::read_dir(&dir)
        .expect("the directory of cases")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "py"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no case in {}", dir.display());
    for path in paths {
        let text = fs::read_to_string(&path).expect("a readable case");
        let (input, expected) = text.split_once(DASHES).unwrap_or((&text, ""));
        let observed = outcome(input);
        if bless {
            fs::write(&path, format!("{input}{DASHES}{observed}")).expect("a writable case");
        } else {
            assert_eq!(observed, expected, "{} (REFLEX_BLESS=1 accepts)", path.display());
        }
    }
}
