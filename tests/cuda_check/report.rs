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
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.facts)?;
        writeln!(f, "\n| part | pass | fail | not run |\n|---|---|---|---|")?;
        for kind in [Kind::Probe, Kind::Program, Kind::Ceiling] {
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
        let figures = self.results.iter().flat_map(|result| &result.figures);
        let rows = figures.fold(String::new(), |mut rows, (name, value)| {
            let _ = writeln!(rows, "| {name} | {value:.3} |");
            rows
        });
        if !rows.is_empty() {
            write!(f, "\n| figure | value |\n|---|---|\n{rows}")?;
        }
        Ok(())
    }
}
