//! What has been compiled and why the rest has not, for people and tests.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use reflex_vm::decode::SiteId;
use reflex_vm::program::Program;
use reflex_vm::session::Session;

use crate::engine::{TraceCode, WholeCode};
use crate::evict::Usage;
use crate::tier::CraneliftTier;

/// A function that was compiled whole.
#[derive(Clone, Debug)]
pub struct CodeReport {
    /// The program's identity.
    pub program: u64,
    /// The function.
    pub func: u32,
    /// Bytes of machine code.
    pub code_bytes: usize,
    /// None of code that was compiled ahead of time: it does not count, and stays.
    pub(crate) usage: Option<Arc<Usage>>,
    pub(crate) code: Weak<WholeCode>,
}

impl CodeReport {
    /// How often the code was entered; none of code that was compiled ahead of time.
    pub fn runs(&self) -> Option<u64> {
        self.usage.as_ref().map(|usage| usage.runs.load(Ordering::Relaxed))
    }

    /// Whether the code made room for other code.
    pub fn evicted(&self) -> bool {
        self.usage.as_ref().is_some_and(|usage| usage.evicted.load(Ordering::Relaxed))
    }

    /// The machine code and its address; none once it is gone.
    pub fn machine_code(&self) -> Option<(usize, Vec<u8>)> {
        self.code.upgrade().map(|code| code.published.copy())
    }
}

/// A compiled trace.
#[derive(Clone, Debug)]
pub struct TraceReport {
    /// The program's identity.
    pub program: u64,
    /// Where the trace starts.
    pub site: SiteId,
    /// Number of the trace, of those of this process.
    pub number: u64,
    /// The trace and the exit that this one follows on, if it is a bridge.
    pub bridge: Option<(u64, u32)>,
    /// The trace as it was recorded, as text.
    pub recorded: String,
    /// The trace as it was compiled, as text.
    pub text: String,
    /// Bytes of machine code.
    pub code_bytes: usize,
    /// Guards it has.
    pub guards: usize,
    /// What the interpreter finds after each exit.
    pub exit_names: Vec<String>,
    pub(crate) taken: Arc<[AtomicU64]>,
    pub(crate) usage: Arc<Usage>,
    pub(crate) code: Weak<TraceCode>,
}

impl TraceReport {
    /// How often each exit was taken.
    pub fn exits(&self) -> Vec<u64> {
        self.taken.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// How often the trace began, or began again.
    pub fn runs(&self) -> u64 {
        self.usage.runs.load(Ordering::Relaxed)
    }

    /// Whether the trace made room for other code.
    pub fn evicted(&self) -> bool {
        self.usage.evicted.load(Ordering::Relaxed)
    }

    /// The machine code and its address; none once it is gone.
    pub fn machine_code(&self) -> Option<(usize, Vec<u8>)> {
        self.code.upgrade().map(|code| code.published.copy())
    }
}

impl CraneliftTier {
    /// What was done with every function of a program: traces with their guards and the exits
    /// that were taken, functions compiled whole or found in a file, and the reasons not to
    /// compile. With a session, also what it has counted at places that it still interprets.
    pub fn describe(&self, program: &Program, session: Option<&Session>) -> String {
        let mut text = String::new();
        let (traces, functions) = (self.traces(program), self.functions(program));
        let mut reasons: BTreeMap<SiteId, Vec<String>> = BTreeMap::new();
        for ((site, name), count) in program.bailouts_by_site() {
            reasons.entry(site).or_default().push(format!("{name} {count}"));
        }
        let tried = self.engine.tries.of(program.id());
        for func in program.code().functions.iter().flatten() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}: {} operations", program.name(func.index), func.ops.len());
            if let Some(sites) = self.engine.saved_function(program.id(), func.index) {
                let _ = writeln!(text, "  saved code, {} entries", sites.len());
            }
            for code in functions.iter().filter(|code| code.func == func.index) {
                let gone = if code.evicted() { ", evicted" } else { "" };
                let _ = writeln!(text, "  compiled whole, {} bytes{gone}", code.code_bytes);
            }
            let sites = program.code().sites.iter().zip(0..).map(|(site, id)| (site, SiteId(id)));
            for (place, site) in sites.filter(|(place, _)| place.func == func.index) {
                let what = match place.is_loop {
                    true => format!("loop at {}", place.pc),
                    false => "entry".to_owned(),
                };
                let arrivals = session.and_then(|session| session.arrivals(site));
                if let Some((seen, threshold)) = arrivals.filter(|(seen, _)| *seen > 0) {
                    let _ = writeln!(text, "  {what}: counted {seen} of {threshold} arrivals");
                }
                let tried = tried.get(&site).copied().unwrap_or_default();
                if tried.recorded > 0 {
                    let _ = writeln!(text, "  {what}: recorded {} times", tried.recorded);
                }
                if tried.evicted > 0 {
                    let _ = writeln!(text, "  {what}: evicted {} times", tried.evicted);
                }
                for trace in traces.iter().filter(|trace| trace.site == site) {
                    trace.describe(&mut text, &what, &traces);
                }
                if let Some(reasons) = reasons.get(&site) {
                    let _ = writeln!(text, "  {what}: not compiled: {}", reasons.join(", "));
                }
            }
        }
        let (bytes, limit) = self.code_bytes();
        let evicted = self.evictions(program);
        let _ = writeln!(text, "translated: {} machine functions", self.translated());
        let _ = writeln!(text, "code: {bytes} bytes of at most {limit}, {evicted} pieces evicted");
        text
    }
}

impl TraceReport {
    /// `traces` are those of the program.
    fn describe(&self, text: &mut String, what: &str, traces: &[TraceReport]) {
        let (guards, bytes, runs) = (self.guards, self.code_bytes, self.runs());
        let gone = if self.evicted() { ", evicted" } else { "" };
        let kind = match self.bridge {
            Some((parent, exit)) => {
                let parent = traces.iter().find(|trace| trace.number == parent);
                let from = parent.and_then(|parent| parent.exit_names.get(exit as usize));
                format!("bridge from {}", from.map_or("an exit", String::as_str))
            }
            None => "trace".to_owned(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  {what}: {kind} with {guards} guards, {bytes} bytes, ran {runs} times{gone}"
        );
        for (name, count) in self.exit_names.iter().zip(self.exits()).filter(|(_, n)| *n > 0) {
            let _ = writeln!(text, "    left {count} times at {name}");
        }
    }
}
