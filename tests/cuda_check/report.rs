//! The findings of a check, as JSON and as a table.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use crate::facts::Facts;

/// Version of [`Report`].
pub const VERSION: u32 = 1;

/// Everything that a check found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`VERSION`].
    pub version: u32,
    /// The release that was checked.
    pub reflex: String,
    /// The device and its driver.
    pub facts: Facts,
    /// One for each part, in order.
    pub results: Vec<PartResult>,
}

/// The subject of a part of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A single instruction.
    Probe,
    /// A program.
    Program,
    /// A figure of the device.
    Ceiling,
    /// A figure of PyTorch on the device.
    Anchor,
}

/// The outcome of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As expected.
    Pass,
    /// Not as expected.
    Fail,
    /// The time was up.
    Skipped,
}

/// The outcome of one part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartResult {
    /// Its subject.
    pub kind: Kind,
    /// Which.
    pub name: String,
    /// Its outcome.
    pub status: Status,
    /// Why it did not pass.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Figures by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
    /// BLAKE3 of the words that a probe wrote, all NaNs of which are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

impl Report {
    /// Whether every part is as expected.
    pub fn is_passed(&self) -> bool {
        self.results.iter().all(|result| result.status == Status::Pass)
    }

    /// The number of parts of a kind with an outcome.
    pub fn count(&self, kind: Kind, status: Status) -> usize {
        self.results.iter().filter(|r| r.kind == kind && r.status == status).count()
    }
}

impl Kind {
    /// Its plural.
    pub fn title(self) -> &'static str {
        match self {
            Kind::Probe => "probes",
            Kind::Program => "programs",
            Kind::Ceiling => "ceilings",
            Kind::Anchor => "anchors",
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.facts)?;
        writeln!(f, "\n| part | pass | fail | not run |\n|---|---|---|---|")?;
        for kind in [Kind::Probe, Kind::Program, Kind::Ceiling, Kind::Anchor] {
            let [pass, fail, skipped] = [Status::Pass, Status::Fail, Status::Skipped]
                .map(|status| self.count(kind, status));
            writeln!(f, "| {} | {pass} | {fail} | {skipped} |", kind.title())?;
        }
        let failed = self.results.iter().filter(|result| result.status == Status::Fail);
        let lines = failed.fold(String::new(), |mut lines, result| {
            let _ = writeln!(lines, "- {}: {}", result.name, result.detail);
            lines
        });
        if !lines.is_empty() {
            writeln!(f, "\nNot as expected:\n\n{}", lines.trim_end())?;
        }
        self.figures(f)?;
        self.programs(f)
    }
}

impl Report {
    /// The table of ceilings and of what PyTorch reaches.
    fn figures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.program_names();
        let of_device = |result: &&PartResult| !names.contains(&result.name.as_str());
        let figures = self.results.iter().filter(of_device).flat_map(|result| &result.figures);
        let rows = figures.fold(String::new(), |mut rows, (name, value)| {
            let _ = writeln!(rows, "| {name} | {value:.3} |");
            rows
        });
        if rows.is_empty() { Ok(()) } else { write!(f, "\n| figure | value |\n|---|---|\n{rows}") }
    }

    /// Programs whose calls were timed.
    fn program_names(&self) -> Vec<&str> {
        let timed = |r: &&PartResult| r.kind == Kind::Program && !r.figures.is_empty();
        self.results.iter().filter(timed).map(|result| result.name.as_str()).collect()
    }

    /// The table of programs: times in us, with PyTorch's of the same shapes.
    fn programs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.program_names();
        if names.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n| program, us | {} |", COLUMNS.join(" | "))?;
        writeln!(f, "|---|{}", "---|".repeat(COLUMNS.len()))?;
        for name in names {
            let of_name = || self.results.iter().filter(|result| result.name == name);
            let cell = |column: &&str| {
                let figure = of_name().find_map(|result| result.figures.get(*column));
                figure.map_or_else(String::new, |us| format!("{us:.1}"))
            };
            let cells: Vec<String> = COLUMNS.iter().map(cell).collect();
            writeln!(f, "| {name} | {} |", cells.join(" | "))?;
        }
        Ok(())
    }
}

/// The time from loading a program to its first results.
pub const FIRST_ANSWER: &str = "first answer";
/// The same where the driver compiles its PTX, although there are cubins.
pub const FIRST_ANSWER_OF_PTX: &str = "first answer, PTX";

/// Figures of a program. A call `in a row` is one of many, of which the last alone is waited for.
pub const COLUMNS: [&str; 9] = [
    "launches in a batch",
    FIRST_ANSWER,
    FIRST_ANSWER_OF_PTX,
    "call, bytecode",
    "call, tiered",
    "in a row, bytecode",
    "in a row, tiered",
    "torch in a row",
    "torch graph in a row",
];
