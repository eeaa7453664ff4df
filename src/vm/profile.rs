//! An instrument that counts and times calls, and what it reports: a table by callee and a
//! time line in the JSON form that Perfetto and Chrome open.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use reflex_runtime::device::waits::{self, WaitCounts};
use reflex_runtime::error::Error;
use reflex_runtime::tensor;
use reflex_runtime::value::AnyView;

use crate::instrument::{CallEvent, Instrument, Verdict};

/// Calls, time and memory traffic of one callee.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Entry {
    /// Number of calls.
    pub calls: u64,
    /// Time in it and its callees.
    pub total: Duration,
    /// Time in it without its callees.
    pub own: Duration,
    /// Bytes of the tensors it was given, outputs passed as arguments included.
    pub bytes: u64,
    /// Floating-point operations of its calls; `None` when they are not known of every call.
    pub operations: Option<u64>,
}

/// One call on the time line.
#[derive(Clone, Debug)]
pub struct Event {
    /// Index of the callee in [`Profile::names`].
    pub callee: u32,
    /// Instruction of the caller.
    pub instr: u32,
    /// Since the profile began.
    pub start: Duration,
    /// Its duration.
    pub duration: Duration,
    /// Its floating-point operations, where they are known.
    pub operations: Option<u64>,
}

/// Returns the number of floating-point operations of a call, if it is known.
type CountOperations = dyn Fn(&CallEvent<'_>) -> Option<u64> + Send;

struct Running {
    began: Instant,
    callees: Duration,
    bytes: u64,
    operations: Option<u64>,
}

/// Counts and times calls by callee, and remembers the first of them one by one.
pub struct Profile {
    epoch: Instant,
    count_operations: Box<CountOperations>,
    ids: HashMap<String, u32>,
    names: Vec<String>,
    entries: Vec<Entry>,
    running: Vec<Running>,
    events: Vec<Event>,
    dropped: u64,
    /// The waits of this thread before the profile began.
    waits: WaitCounts,
}

/// Gigabytes a second that no core reads, from its first cache either.
const MAX_BANDWIDTH: f64 = 1000.0;

/// Events kept; later calls are counted but not listed one by one.
const MAX_EVENTS: usize = 1 << 20;

impl Default for Profile {
    fn default() -> Profile {
        Profile::new(|_| None)
    }
}

impl Profile {
    /// A profile with rates of operations, for the calls that `count_operations` knows.
    pub fn new(
        count_operations: impl Fn(&CallEvent<'_>) -> Option<u64> + Send + 'static,
    ) -> Profile {
        Profile {
            epoch: Instant::now(),
            count_operations: Box::new(count_operations),
            ids: HashMap::new(),
            names: Vec::new(),
            entries: Vec::new(),
            running: Vec::new(),
            events: Vec::new(),
            dropped: 0,
            waits: waits::counts(),
        }
    }

    /// Callees, those with most time of their own first.
    pub fn by_time(&self) -> Vec<(&str, Entry)> {
        let mut entries: Vec<_> =
            self.names.iter().map(String::as_str).zip(self.entries.iter().copied()).collect();
        entries.sort_by(|a, b| b.1.own.cmp(&a.1.own).then(a.0.cmp(b.0)));
        entries
    }

    /// Names of callees, by number.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The first calls, in the order in which they ended.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// A table of callees, and what was waited for a device for: calls, time of their own and its share, bytes of the tensors given and
    /// their rate, and the rate of floating-point operations where they are known. There is no rate
    /// of bytes where it would be beyond any CPU's: not all of the tensors was read then.
    pub fn table(&self) -> String {
        let rows = self.by_time();
        let all: Duration = rows.iter().map(|(_, entry)| entry.own).sum();
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max(6);
        let mut out = format!(
            "{:width$}  {:>9}  {:>12}  {:>6}  {:>12}  {:>8}  {:>8}\n",
            "callee", "calls", "own us", "share", "bytes", "GB/s", "GFLOP/s"
        );
        for (name, entry) in rows {
            let seconds = entry.own.as_secs_f64();
            let share = 100.0 * seconds / all.as_secs_f64().max(f64::MIN_POSITIVE);
            let rate = |amount: f64, most: f64| match amount / seconds / 1e9 {
                rate if rate > 0.0 && rate <= most => format!("{rate:.2}"),
                _ => "-".to_owned(),
            };
            writeln!(
                out,
                "{name:width$}  {:>9}  {:>12.1}  {share:>5.1}%  {:>12}  {:>8}  {:>8}",
                entry.calls,
                seconds * 1e6,
                entry.bytes,
                rate(entry.bytes as f64, MAX_BANDWIDTH),
                rate(entry.operations.unwrap_or(0) as f64, f64::MAX),
            )
            .expect("writing to a String cannot fail");
        }
        let waits = self.waits();
        if !waits.is_zero() {
            writeln!(out, "waits for the device: {waits}")
                .expect("writing to a String cannot fail");
        }
        out
    }

    /// The waits of the thread for a device since the profile began.
    pub fn waits(&self) -> WaitCounts {
        waits::counts().since(&self.waits)
    }

    /// The time line as trace events in JSON.
    pub fn trace_json(&self) -> String {
        let mut out = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
        for (at, event) in self.events.iter().enumerate() {
            let name = json_string(&self.names[event.callee as usize]);
            let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
            let comma = if at + 1 < self.events.len() { "," } else { "" };
            let rate = event.operations.map(|operations| {
                let rate = operations as f64 / (event.duration.as_nanos() as f64).max(1.0);
                format!(",\"operations\":{operations},\"GFLOP/s\":{rate:.3}")
            });
            writeln!(
                out,
                "{{\"name\":{name},\"cat\":\"call\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\
                 \"ts\":{:.3},\"dur\":{:.3},\"args\":{{\"instruction\":{}{}}}}}{comma}",
                micros(event.start),
                micros(event.duration),
                event.instr,
                rate.unwrap_or_default(),
            )
            .expect("writing to a String cannot fail");
        }
        writeln!(out, "],\"otherData\":{{\"calls left out\":{}}}}}", self.dropped)
            .expect("writing to a String cannot fail");
        out
    }

    fn id(&mut self, callee: &str) -> u32 {
        // Steady state finds the entry; only a new callee allocates.
        if let Some(&id) = self.ids.get(callee) {
            return id;
        }
        let id = self.names.len() as u32;
        self.ids.insert(callee.to_owned(), id);
        self.names.push(callee.to_owned());
        self.entries.push(Entry { operations: Some(0), ..Entry::default() });
        id
    }
}

impl Instrument for Profile {
    fn before(&mut self, call: &CallEvent<'_>) -> Result<Verdict, Error> {
        let bytes = call.args().iter().map(bytes_of).sum();
        let operations = (self.count_operations)(call);
        let began = Instant::now();
        self.running.push(Running { began, callees: Duration::ZERO, bytes, operations });
        Ok(Verdict::Run)
    }

    fn after(&mut self, call: &CallEvent<'_>, _: AnyView<'_>) -> Result<(), Error> {
        let Some(Running { began, callees, bytes, operations }) = self.running.pop() else {
            return Ok(());
        };
        let total = began.elapsed();
        if let Some(caller) = self.running.last_mut() {
            caller.callees += total;
        }
        let id = self.id(call.callee());
        let entry = &mut self.entries[id as usize];
        entry.calls += 1;
        entry.total += total;
        entry.own += total.saturating_sub(callees);
        entry.bytes += bytes;
        entry.operations = entry.operations.zip(operations).map(|(sum, more)| sum + more);
        if self.events.len() < MAX_EVENTS {
            let start = began.saturating_duration_since(self.epoch);
            let (instr, duration) = (call.instr(), total);
            self.events.push(Event { callee: id, instr, start, duration, operations });
        } else {
            self.dropped += 1;
        }
        Ok(())
    }

    fn aborted(&mut self) {
        self.running.clear();
    }
}

/// Bytes of a tensor argument; zero for anything else.
fn bytes_of(arg: &AnyView<'_>) -> u64 {
    let Some(dl) = arg.as_dltensor() else { return 0 };
    if dl.ndim <= 0 {
        return dl.dtype.bytes_for(1).unwrap_or(0) as u64;
    }
    // SAFETY: the view is of a live tensor, whose `shape` points to `ndim` dimensions.
    let shape = unsafe { std::slice::from_raw_parts(dl.shape, dl.ndim as usize) };
    tensor::byte_size(shape, dl.dtype).unwrap_or(0) as u64
}

fn json_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => write!(out, "\\u{:04x}", c as u32).expect("writing to a String"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instrument::CallSite;

    #[test]
    fn rates_are_those_of_bytes_that_can_have_been_read() {
        let mut profile = Profile::default();
        for (name, bytes) in [("copy", 1_000_000), ("row_of_a_table", u64::MAX / 2)] {
            let id = profile.id(name);
            let own = Duration::from_micros(100);
            profile.entries[id as usize] = Entry { calls: 1, own, bytes, ..Entry::default() };
        }
        let table = profile.table();
        let row = |name| table.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(row("copy").ends_with("1000000     10.00         -"), "{table}");
        assert!(row("row_of_a_table").ends_with("-         -"), "{table}");
    }

    #[test]
    fn time_is_told_apart_by_callee() {
        let mut profile = Profile::new(|call| (call.callee() == "outer").then_some(1_000_000_000));
        let sites = ["outer", "in\"ner"].map(CallSite::named);
        let [outer, inner] = sites.each_ref().map(|site| CallEvent { site, args: &[] });
        profile.before(&outer).unwrap();
        profile.before(&inner).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        profile.after(&inner, AnyView::NONE).unwrap();
        profile.after(&outer, AnyView::NONE).unwrap();
        let entries: HashMap<_, _> = profile.by_time().into_iter().collect();
        let (outer, inner) = (entries["outer"], entries["in\"ner"]);
        assert!(outer.total >= inner.total && outer.own + inner.total <= outer.total);
        assert_eq!((outer.operations, inner.operations), (Some(1_000_000_000), None));
        let table = profile.table();
        assert_eq!(table.lines().count(), 3);
        let longest = if inner.own >= outer.own { "in\"ner" } else { "outer" };
        assert!(table.lines().nth(1).unwrap().starts_with(longest), "{table}");
        let trace = profile.trace_json();
        assert_eq!(trace.matches("\"ph\":\"X\"").count(), 2);
        assert!(trace.contains("\"in\\\"ner\""), "{trace}");
        let rates = trace.matches("\"operations\":1000000000,\"GFLOP/s\":").count();
        assert_eq!(rates, 1, "{trace}");
    }
}
