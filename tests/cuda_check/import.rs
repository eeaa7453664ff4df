//! Turns a report into the record of the repository.

use std::fmt::Write as _;
use std::path::Path;

use crate::pack::MODELS;
use crate::report::{FIRST_ANSWER, Kind, PartResult, Report, Status, VERSION};

/// The way an aim is measured.
#[derive(Clone, Copy)]
enum Measured {
    /// Not yet.
    No,
    /// By a ceiling's figure.
    Ceiling(&'static str),
    /// As the share of PyTorch's speed that a program has in a row.
    BesideTorch(&'static str),
    /// As the longest time to a model's first answer.
    FirstAnswer,
}

/// The aims, on the same device and in the same run, and the figure that would show it.
const REACH: [(&str, &str, &str, Measured); 10] = [
    (
        "copy, map, softmax, norms, transpose, reductions, 0.5 to 4 GiB",
        "the device's copy",
        "92%; never slower than torch.compile",
        Measured::No,
    ),
    ("bf16 matmul, 8192 cubed", "torch", "97%", Measured::BesideTorch("matmul_bf16_larger")),
    (
        "24 matmul shapes (ragged, skinny, batched)",
        "cuBLAS",
        "geometric mean 95%, worst 85%",
        Measured::No,
    ),
    (
        "float32 matmul without TF32, error at most cuBLAS's",
        "cuBLAS SGEMM, 2048 cubed",
        "2.0x",
        Measured::BesideTorch("matmul_large"),
    ),
    (
        "attention, d = 64, 128, 256, 1k to 16k",
        "best torch SDPA",
        "geometric mean 92%",
        Measured::No,
    ),
    (
        "decode of an 8B shape, batch 1, bf16",
        "read ceiling",
        "88%, and 1.15x torch.compile",
        Measured::No,
    ),
    (
        "host cost of a launch, us (over a bare cuLaunchKernel: to be measured beside it)",
        "bare cuLaunchKernel",
        "interpreter 0.120, trace 0.025 us more",
        Measured::Ceiling("launch, us of the host"),
    ),
    ("a batch over bare cuGraphLaunch", "", "100 ns, and none per kernel", Measured::No),
    ("small models, batch 1, latency", "torch, fastest mode", "geometric mean 1.5x", Measured::No),
    (
        "`.so` to first answer after context creation, the slowest model",
        "",
        "60 ms, nothing compiled",
        Measured::FirstAnswer,
    ),
];

/// Reads a report and writes the record.
pub fn import(report: &Path, record: &Path, date: &str) -> Result<(), String> {
    let wrong = |why: String| format!("{}: {why}", report.display());
    let text = std::fs::read(report).map_err(|e| wrong(e.to_string()))?;
    let found: Report = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
    if found.version != VERSION {
        return Err(wrong(format!("version {}, and this program reads {VERSION}", found.version)));
    }
    if found.facts.is_stand_in() {
        let name = &found.facts.name;
        return Err(wrong(format!("{name} is no GPU: a stand-in's figures are no record")));
    }
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
    };
    write(&record.with_file_name(CONFIRMED), confirmed(&found))?;
    write(record, page(&found, date))
}

/// The file beside the record with the probes that passed.
pub const CONFIRMED: &str = "cuda-probes.txt";

/// A line for each probe that passed: the hash of its results, and its form. A test holds the PTX
/// interpreter to them.
fn confirmed(report: &Report) -> String {
    let head =
        format!("# Results of single instructions on {}, by `./x cuda-import`.\n", report.facts);
    let passed = report.results.iter().filter(|result| result.status == Status::Pass);
    let lines = passed.filter_map(|r| Some(format!("{} {}\n", r.hash.as_deref()?, r.name)));
    head + &lines.collect::<String>()
}

/// The record of a report.
fn page(report: &Report, date: &str) -> String {
    let mut page = String::from("# CUDA: what a device has shown\n\n");
    let _ =
        writeln!(page, "By `./x cuda-import`, of a report of Reflex {}, {date}.\n", report.reflex);
    let _ = writeln!(page, "{report}");
    let skipped = report.results.iter().filter(|result| result.status == Status::Skipped);
    let skipped: Vec<&str> = skipped.map(|result| result.name.as_str()).collect();
    if !skipped.is_empty() {
        let _ = writeln!(page, "Not run: {}.\n", skipped.join(", "));
    }
    page += &reach(Some(report));
    page
}

/// The table of what is aimed at, with what was measured.
fn reach(report: Option<&Report>) -> String {
    let mut table =
        String::from("## Reach\n\n| what | compared with | aim | measured |\n|---|---|---|---|\n");
    for (what, with, aim, how) in REACH {
        let measured = report.and_then(|report| measured(report, how)).unwrap_or_default();
        let _ = writeln!(table, "| {what} | {with} | {aim} | {measured} |");
    }
    table
}

fn measured(report: &Report, how: Measured) -> Option<String> {
    let figure = |kind: Kind, part: Option<&str>, name: &str| {
        let of = |r: &&PartResult| r.kind == kind && part.is_none_or(|part| r.name == part);
        let mut results = report.results.iter().filter(of);
        results.find_map(|result| result.figures.get(name)).copied()
    };
    match how {
        Measured::No => None,
        Measured::Ceiling(name) => Some(format!("{:.3}", figure(Kind::Ceiling, None, name)?)),
        Measured::BesideTorch(program) => {
            let own = ["bytecode", "tiered"].map(|mode| format!("in a row, {mode}"));
            let own = own.iter().filter_map(|name| figure(Kind::Program, Some(program), name));
            let torch = ["torch in a row", "torch graph in a row"];
            let torch = torch.iter().filter_map(|name| figure(Kind::Anchor, Some(program), name));
            Some(format!("{:.0}%", 100.0 * torch.reduce(f64::min)? / own.reduce(f64::min)?))
        }
        Measured::FirstAnswer => {
            let models = MODELS
                .iter()
                .filter_map(|(model, ..)| figure(Kind::Program, Some(model), FIRST_ANSWER));
            Some(format!("{:.1} ms", models.reduce(f64::max)? / 1e3))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_record_has_the_table_and_no_figure_that_no_device_gave() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/record/cuda.md");
        let record = std::fs::read_to_string(path).expect("the record");
        if record.contains("No device has run this yet.") {
            assert!(record.ends_with(&reach(None)), "the table of {path} is another than import's");
        }
    }
}
