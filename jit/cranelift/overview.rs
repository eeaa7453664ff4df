//! An overview of a tier's code for a program, and of the reasons why code is missing, as data and
//! text.

use std::collections::BTreeMap;
use std::fmt;

use reflex_vm::decode::{SiteId, SiteKind};
use reflex_vm::program::Program;
use reflex_vm::session::Session;
use serde::Serialize;

use crate::method::lowering::InlineDecision;
use crate::penalty::SiteKey;
use crate::report::{MethodReport, ParentExit, Pending, TraceReport};
use crate::tier::CraneliftTier;

/// The code of a program.
#[derive(Clone, Debug, Serialize)]
pub struct Overview {
    /// Its functions, in the order of the program.
    pub functions: Vec<FunctionOverview>,
    /// Machine functions that were translated, of any program.
    pub translated: usize,
    /// Bytes of machine code that exist, of any program, in pages.
    pub code_bytes: usize,
    /// The code-cache budget, in bytes.
    pub code_limit: usize,
    /// Traces and methods of this program that were evicted.
    pub evicted: usize,
}

/// The code of a function.
#[derive(Clone, Debug, Serialize)]
pub struct FunctionOverview {
    /// Its name.
    pub name: String,
    /// Operations it has.
    pub operations: usize,
    /// Entries of code that was loaded from a file.
    pub saved_entries: Option<usize>,
    /// Each compilation of the function as a method.
    pub methods: Vec<MethodOverview>,
    /// The sites that can become hot: its entry, then its loops.
    pub sites: Vec<SiteOverview>,
}

/// A method.
#[derive(Clone, Debug, Serialize)]
pub struct MethodOverview {
    /// Bytes of machine code.
    pub code_bytes: usize,
    /// Times that it was entered; `None` if it was compiled ahead of time.
    pub runs: Option<u64>,
    /// Whether it was evicted.
    pub evicted: bool,
    /// Builtins that are inline, that recycle objects, and that the VM runs.
    pub builtins: [usize; 3],
    /// Its assembly, if requested and not freed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assembly: Option<String>,
}

/// A site that can become hot.
#[derive(Clone, Debug, Serialize)]
pub struct SiteOverview {
    /// `entry`, or the operation where the loop starts.
    pub site: String,
    /// The hot counter of a session, and the threshold at which the site is hot.
    pub arrivals: Option<(u32, u32)>,
    /// The next step, if the site is hot.
    pub pending: Option<Pending>,
    /// Recordings begun.
    pub recorded: u32,
    /// Traces and methods of the site that were evicted.
    pub evicted: u32,
    /// Root traces of the site, and their side traces.
    pub traces: Vec<TraceOverview>,
    /// Counts of each reason why code was not compiled.
    pub not_compiled: BTreeMap<&'static str, u64>,
}

/// A trace.
#[derive(Clone, Debug, Serialize)]
pub struct TraceOverview {
    /// The side exit that it starts from, if it is a side trace.
    pub parent_exit: Option<String>,
    /// Guards it has.
    pub guards: usize,
    /// Bytes of machine code.
    pub code_bytes: usize,
    /// Times that it was entered or iterated.
    pub runs: u64,
    /// Whether it was evicted.
    pub evicted: bool,
    /// Its side exits: the position where the interpreter resumes, and the times taken.
    pub exits: Vec<(String, u64)>,
    /// The recorded trace, if code was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// The passes that changed it, in order, and the trace after each, if code was requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<(&'static str, String)>,
    /// The compiled trace, if code was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its assembly, if requested and not freed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assembly: Option<String>,
}

/// Disassembles machine code at an address.
pub type Disassemble<'d> = &'d dyn Fn(&[u8], usize) -> String;

impl CraneliftTier {
    /// The code of every function of a program. With a session, includes its hot counters; with a
    /// disassembler, includes the code.
    pub fn overview(
        &self,
        program: &Program,
        session: Option<&Session>,
        disassemble: Option<Disassemble<'_>>,
    ) -> Overview {
        let (traces, methods) = (self.traces(program), self.methods(program));
        let histories = self.store().penalties.of(program.id());
        let mut reasons: BTreeMap<SiteId, BTreeMap<&'static str, u64>> = BTreeMap::new();
        for ((site, name), count) in program.bailouts_by_site() {
            reasons.entry(site).or_default().insert(name, count);
        }
        let site_overview = |(at, site): (&reflex_vm::decode::Site, SiteId)| {
            let key = SiteKey { program: program.id(), site };
            let mut not_compiled = reasons.get(&site).cloned().unwrap_or_default();
            if let Some(reason) = self.unreported_failure(key) {
                *not_compiled.entry(reason.name()).or_default() += 1;
            }
            let history = histories.get(&site).copied().unwrap_or_default();
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
                recorded: history.recorded,
                evicted: history.evicted,
                traces: own.map(|trace| trace.overview(program, &traces, disassemble)).collect(),
                not_compiled,
            }
        };
        let sites = || program.code().sites.iter().zip((0..).map(SiteId));
        let functions = program.code().functions.iter().flatten().map(|func| {
            let saved = self.store().saved_function(program.id(), func.index);
            let own = methods.iter().filter(|code| code.func == func.index);
            FunctionOverview {
                name: program.name(func.index).to_owned(),
                operations: func.ops.len(),
                saved_entries: saved.map(|sites| sites.len()),
                methods: own.map(|code| code.overview(disassemble)).collect(),
                sites: sites().filter(|(at, _)| at.func == func.index).map(site_overview).collect(),
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
        let recycled = count(InlineDecision::Recycled) + count(InlineDecision::Fused);
        MethodOverview {
            builtins: [count(InlineDecision::Inline), recycled, count(InlineDecision::Called)],
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
            name.unwrap_or_else(|| "a side exit".to_owned())
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
            write!(f, "  method, {} bytes", code.code_bytes)?;
            if let Some(runs) = code.runs {
                write!(f, ", entered {runs} times")?;
            }
            f.write_str(if code.evicted { ", evicted\n" } else { "\n" })?;
            let [inline, recycled, called] = code.builtins;
            writeln!(f, "    builtins: {inline} inline, {recycled} recycled, {called} called")?;
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
            writeln!(f, "  {what}: hot counter at {seen} of {threshold}")?;
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
                writeln!(f, "    side exit taken {count} times: {name}")?;
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
            Some(from) => write!(f, "side trace from {from}")?,
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
