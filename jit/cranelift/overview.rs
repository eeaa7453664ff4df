//! What was done with every function of a program and why not more, as data and as text.

use std::collections::BTreeMap;
use std::fmt;

use reflex_vm::decode::{SiteId, SiteKind};
use reflex_vm::program::Program;
use reflex_vm::session::Session;
use serde::Serialize;

use crate::lowering::Lowering;
use crate::report::{MethodReport, ParentExit, Pending, TraceReport};
use crate::tier::CraneliftTier;

/// What a tier did with a program.
#[derive(Clone, Debug, Serialize)]
pub struct Overview {
    /// Its functions, in the order of the program.
    pub functions: Vec<FunctionOverview>,
    /// Machine functions that were translated, of any program.
    pub translated: usize,
    /// Bytes of machine code that there are, of any program, in whole pages.
    pub code_bytes: usize,
    /// The most there may be.
    pub code_limit: usize,
    /// Pieces of code of this program that made room for others.
    pub evicted: usize,
}

/// What a tier did with a function.
#[derive(Clone, Debug, Serialize)]
pub struct FunctionOverview {
    /// Its name.
    pub name: String,
    /// Operations it has.
    pub operations: usize,
    /// Where code that was found in a file can be entered.
    pub saved_entries: Option<usize>,
    /// Code of the whole function, each time that it was made.
    pub methods: Vec<MethodOverview>,
    /// Where it can become hot: its entry, then its loops.
    pub sites: Vec<SiteOverview>,
}

/// Code of a whole function.
#[derive(Clone, Debug, Serialize)]
pub struct MethodOverview {
    /// Bytes of machine code.
    pub code_bytes: usize,
    /// How often it was entered; nothing when it was compiled ahead of time.
    pub runs: Option<u64>,
    /// Whether it made room for other code.
    pub evicted: bool,
    /// Builtins that were written out, that take objects back, and that the VM runs.
    pub builtins: [usize; 3],
    /// Its assembly, when that was asked for and is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assembly: Option<String>,
}

/// A place that can become hot.
#[derive(Clone, Debug, Serialize)]
pub struct SiteOverview {
    /// `entry`, or where the loop begins.
    pub site: String,
    /// Arrivals that a session counted since the tier was last asked, and how many make it hot.
    pub arrivals: Option<(u32, u32)>,
    /// What is still to come.
    pub pending: Option<Pending>,
    /// Recordings begun.
    pub recorded: u32,
    /// Pieces of its code that made room for others.
    pub evicted: u32,
    /// Traces that begin here, and bridges that follow on them.
    pub traces: Vec<TraceOverview>,
    /// How often each reason not to compile was given.
    pub not_compiled: BTreeMap<&'static str, u64>,
}

/// A trace.
#[derive(Clone, Debug, Serialize)]
pub struct TraceOverview {
    /// The exit that it follows on, if it is a bridge.
    pub parent_exit: Option<String>,
    /// Guards it has.
    pub guards: usize,
    /// Bytes of machine code.
    pub code_bytes: usize,
    /// How often it began, or began again.
    pub runs: u64,
    /// Whether it made room for other code.
    pub evicted: bool,
    /// Its exits: what the interpreter finds there, and how often they were taken.
    pub exits: Vec<(String, u64)>,
    /// What was recorded, when code was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// The passes that changed it, in order, and what each left, when code was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<(&'static str, String)>,
    /// What it does, when code was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its assembly, when that was asked for and is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assembly: Option<String>,
}

/// Writes machine code at an address as assembly.
pub type Disassemble<'d> = &'d dyn Fn(&[u8], usize) -> String;

impl CraneliftTier {
    /// What was done with every function of a program. With a session, also what it has counted at
    /// places that it still interprets; with a disassembler, also the code.
    pub fn overview(
        &self,
        program: &Program,
        session: Option<&Session>,
        disassemble: Option<Disassemble<'_>>,
    ) -> Overview {
        let (traces, whole) = (self.traces(program), self.methods(program));
        let tried = self.engine.tries.of(program.id());
        let mut reasons: BTreeMap<SiteId, BTreeMap<&'static str, u64>> = BTreeMap::new();
        for ((site, name), count) in program.bailouts_by_site() {
            reasons.entry(site).or_default().insert(name, count);
        }
        let place = |(at, site): (&reflex_vm::decode::Site, SiteId)| {
            let key = (program.id(), site);
            let mut not_compiled = reasons.get(&site).cloned().unwrap_or_default();
            if let Some(untold) = self.engine.untold(key) {
                *not_compiled.entry(untold.name()).or_default() += 1;
            }
            let tried = tried.get(&site).copied().unwrap_or_default();
            let own = traces.iter().filter(|trace| trace.site == site);
            let arrivals = session.and_then(|session| session.hot_count(site));
            SiteOverview {
                site: match at.kind {
                    SiteKind::Entry => "entry".to_owned(),
                    SiteKind::Loop => format!("loop at {}", at.pc),
                    SiteKind::Return => format!("return to {}", at.pc),
                },
                arrivals: arrivals.filter(|(seen, _)| *seen > 0),
                pending: self.pending(key),
                recorded: tried.recorded,
                evicted: tried.evicted,
                traces: own.map(|trace| trace.overview(program, &traces, disassemble)).collect(),
                not_compiled,
            }
        };
        let sites = || program.code().sites.iter().zip((0..).map(SiteId));
        let functions = program.code().functions.iter().flatten().map(|func| {
            let saved = self.engine.saved_function(program.id(), func.index);
            let own = whole.iter().filter(|code| code.func == func.index);
            FunctionOverview {
                name: program.name(func.index).to_owned(),
                operations: func.ops.len(),
                saved_entries: saved.map(|sites| sites.len()),
                methods: own.map(|code| code.overview(disassemble)).collect(),
                sites: sites().filter(|(at, _)| at.func == func.index).map(place).collect(),
            }
        });
        let functions = functions.collect();
        let (code_bytes, code_limit) = self.code_bytes();
        let (translated, evicted) = (self.translated(), self.evictions(program));
        Overview { functions, translated, code_bytes, code_limit, evicted }
    }
}

impl MethodReport {
    fn overview(&self, disassemble: Option<Disassemble<'_>>) -> MethodOverview {
        let code = disassemble.zip(self.machine_code());
        let count = |how| self.lowered.iter().filter(|lowered| lowered.how == how).count();
        MethodOverview {
            builtins: [Lowering::Inline, Lowering::Recycled, Lowering::Called].map(count),
            code_bytes: self.code_bytes,
            runs: self.runs(),
            evicted: self.evicted(),
            assembly: code.map(|(disassemble, (address, code))| disassemble(&code, address)),
        }
    }
}

impl TraceReport {
    /// `traces` are those of the program.
    fn overview(
        &self,
        program: &Program,
        traces: &[TraceReport],
        disassemble: Option<Disassemble<'_>>,
    ) -> TraceOverview {
        let code = disassemble.zip(self.machine_code());
        let from = |ParentExit { trace: parent, exit }: ParentExit| {
            let parent = traces.iter().find(|trace| trace.number == parent);
            let name = parent.and_then(|parent| parent.exit_name(exit as usize));
            name.unwrap_or_else(|| "an exit".to_owned())
        };
        TraceOverview {
            parent_exit: self.parent.map(from),
            guards: self.guards(),
            code_bytes: self.code_bytes,
            runs: self.runs(),
            evicted: self.evicted(),
            exits: (0..).map_while(|exit| self.exit_name(exit)).zip(self.exits()).collect(),
            recorded: disassemble.map(|_| self.recorded()),
            passes: disassemble.map(|_| self.stages(program)).unwrap_or_default(),
            text: disassemble.map(|_| self.text()),
            assembly: code.map(|(disassemble, (address, code))| disassemble(&code, address)),
        }
    }
}

impl fmt::Display for Overview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for function in &self.functions {
            function.fmt(f)?;
        }
        writeln!(f, "translated: {} machine functions", self.translated)?;
        let (bytes, limit, evicted) = (self.code_bytes, self.code_limit, self.evicted);
        writeln!(f, "code: {bytes} bytes of at most {limit}, {evicted} pieces evicted")
    }
}

impl fmt::Display for FunctionOverview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} operations", self.name, self.operations)?;
        if let Some(entries) = self.saved_entries {
            writeln!(f, "  saved code, {entries} entries")?;
        }
        for code in &self.methods {
            write!(f, "  compiled whole, {} bytes", code.code_bytes)?;
            if let Some(runs) = code.runs {
                write!(f, ", entered {runs} times")?;
            }
            f.write_str(if code.evicted { ", evicted\n" } else { "\n" })?;
            let [written, taken_back, called] = code.builtins;
            writeln!(
                f,
                "    builtins: {written} written out, {taken_back} taken back, {called} called"
            )?;
            indented(f, code.assembly.as_deref())?;
        }
        for site in &self.sites {
            site.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for SiteOverview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = &self.site;
        if let Some((seen, threshold)) = self.arrivals {
            writeln!(f, "  {what}: counted {seen} of {threshold} arrivals")?;
        }
        match self.pending {
            Some(Pending::Recording) => writeln!(f, "  {what}: hot, recorded if it stays so")?,
            Some(Pending::Compilation) => writeln!(f, "  {what}: being compiled")?,
            None => {}
        }
        if self.recorded > 0 {
            writeln!(f, "  {what}: recorded {} times", self.recorded)?;
        }
        if self.evicted > 0 {
            writeln!(f, "  {what}: evicted {} times", self.evicted)?;
        }
        for trace in &self.traces {
            writeln!(f, "  {what}: {trace}")?;
            for (name, count) in trace.exits.iter().filter(|(_, count)| *count > 0) {
                writeln!(f, "    left {count} times at {name}")?;
            }
            indented(f, trace.text.as_deref())?;
            if !trace.passes.is_empty() {
                let names: Vec<&str> = trace.passes.iter().map(|(name, _)| *name).collect();
                writeln!(f, "    passes that changed it: {}", names.join(", "))?;
            }
            indented(f, trace.assembly.as_deref())?;
        }
        if !self.not_compiled.is_empty() {
            let reasons = self.not_compiled.iter().map(|(name, count)| format!("{name} {count}"));
            let reasons: Vec<String> = reasons.collect();
            writeln!(f, "  {what}: not compiled: {}", reasons.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for TraceOverview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.parent_exit {
            Some(from) => write!(f, "bridge from {from}")?,
            None => f.write_str("trace")?,
        }
        let (guards, bytes, runs) = (self.guards, self.code_bytes, self.runs);
        write!(f, " with {guards} guards, {bytes} bytes, ran {runs} times")?;
        f.write_str(if self.evicted { ", evicted" } else { "" })
    }
}

fn indented(f: &mut fmt::Formatter<'_>, text: Option<&str>) -> fmt::Result {
    for line in text.into_iter().flat_map(str::lines) {
        writeln!(f, "    {line}")?;
    }
    Ok(())
}
