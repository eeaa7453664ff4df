//! Races between the threads of a launch: one thread writes an element, another one touches it, and no
//! barrier orders the two.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use super::error::EvalErrorKind;
use crate::launch::is_private;
use crate::thread::{BarrierScope, WARP};
use crate::{Buffer, PrimFunc, Stmt};

/// Direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessKind {
    Read,
    Write,
}

/// One access to an element.
#[derive(Clone, Copy)]
struct Touch<'f> {
    block: usize,
    thread: usize,
    /// Barriers of the block so far.
    epoch: u64,
    /// Barriers of the thread's warp so far.
    warp_epoch: u64,
    kind: AccessKind,
    at: Option<&'f Stmt>,
}

impl Touch<'_> {
    fn warp(&self) -> usize {
        self.thread / WARP as usize
    }

    /// Whether one is known to come before the other.
    fn ordered(&self, other: &Touch<'_>) -> bool {
        let same_block = self.block == other.block;
        let same_warp = same_block && self.warp() == other.warp();
        same_block && (self.thread == other.thread || self.epoch != other.epoch)
            || same_warp && self.warp_epoch != other.warp_epoch
    }
}

/// The accesses to one element that a later one may not be ordered with.
#[derive(Clone, Default)]
struct Shadow<'f> {
    write: Option<Touch<'f>>,
    /// Since the last barrier of the last block that read it; one per thread.
    reads: Vec<Touch<'f>>,
    /// By a block before that.
    earlier_read: Option<Touch<'f>>,
}

impl<'f> Shadow<'f> {
    /// The access that `touch` races with.
    fn conflict(&self, touch: &Touch<'f>) -> Option<Touch<'f>> {
        let reads = match touch.kind {
            AccessKind::Read => &[],
            AccessKind::Write => &self.reads[..],
        };
        let earlier = self.earlier_read.filter(|_| touch.kind == AccessKind::Write);
        let mut others = self.write.iter().chain(reads).chain(&earlier);
        others.find(|other| !touch.ordered(other)).copied()
    }

    fn note(&mut self, touch: Touch<'f>) {
        if touch.kind == AccessKind::Write {
            self.write = Some(touch);
            return;
        }
        if let Some(last) = self.reads.last().copied() {
            if last.block != touch.block {
                self.earlier_read = Some(last);
            }
            if last.block != touch.block || last.epoch != touch.epoch {
                self.reads.clear();
            }
        }
        self.reads.retain(|read| read.thread != touch.thread);
        self.reads.push(touch);
    }
}

/// The accesses of one launch, and where its threads are.
pub(super) struct Races<'f> {
    func: &'f PrimFunc,
    /// Buffers that the launch writes and that threads share.
    tracked: HashSet<Buffer>,
    elements: RefCell<HashMap<(Buffer, usize), Shadow<'f>>>,
    /// Names of the blocks so far; the last one runs.
    blocks: Vec<String>,
    /// Names of the threads of a block.
    threads: Vec<String>,
    /// The running thread and its statement.
    thread: usize,
    at: Option<&'f Stmt>,
    epoch: u64,
    warp_epochs: Vec<u64>,
}

impl<'f> Races<'f> {
    /// Nothing was touched; `threads` are the names of those of a block.
    pub fn new(func: &'f PrimFunc, body: &Stmt, threads: Vec<String>) -> Races<'f> {
        let mut tracked = HashSet::new();
        body.visit(&mut |s| tracked.extend(s.written().filter(|b| !is_private(func, *b))));
        Races {
            func,
            tracked,
            elements: RefCell::default(),
            blocks: vec![],
            warp_epochs: vec![0; threads.len().div_ceil(WARP as usize)],
            threads,
            thread: 0,
            at: None,
            epoch: 0,
        }
    }

    /// Another block begins. Its shared memory is its own.
    pub fn begin_block(&mut self, name: String, shared: &[Buffer]) {
        self.blocks.push(name);
        self.elements.get_mut().retain(|(buffer, _), _| !shared.contains(buffer));
    }

    /// `thread` runs from here on.
    pub fn run(&mut self, thread: usize) {
        self.thread = thread;
    }

    /// The running thread comes to a statement.
    pub fn reach(&mut self, at: &'f Stmt) {
        self.at = Some(at);
    }

    /// Threads have waited for each other.
    pub fn barrier(&mut self, scope: BarrierScope, threads: &[usize]) {
        match scope {
            BarrierScope::Block => self.epoch += 1,
            BarrierScope::Warp => {
                if let Some(first) = threads.first() {
                    self.warp_epochs[first / WARP as usize] += 1;
                }
            }
        }
    }

    /// The name of a thread of the running block.
    pub fn name(&self, thread: usize) -> String {
        let block = self.blocks.last().map_or("", String::as_str);
        format!("thread {} of block {block}", self.threads[thread])
    }

    /// An access of the running thread; an error where it races with another one.
    pub fn access(
        &self,
        buffer: Buffer,
        offset: usize,
        at: &[i64],
        kind: AccessKind,
    ) -> Result<(), EvalErrorKind> {
        if !self.tracked.contains(&buffer) {
            return Ok(());
        }
        let (block, thread, epoch) = (self.blocks.len() - 1, self.thread, self.epoch);
        let warp_epoch = self.warp_epochs[thread / WARP as usize];
        let touch = Touch { block, thread, epoch, warp_epoch, kind, at: self.at };
        let mut elements = self.elements.borrow_mut();
        let shadow = elements.entry((buffer, offset)).or_default();
        if let Some(other) = shadow.conflict(&touch) {
            let name = &self.func.buffers[buffer].name;
            let (first, second) = (self.describe(&other), self.describe(&touch));
            return Err(EvalErrorKind::Race(format!("`{name}`{at:?}: {first}, {second}")));
        }
        shadow.note(touch);
        Ok(())
    }

    fn describe(&self, touch: &Touch<'_>) -> String {
        let done = match touch.kind {
            AccessKind::Read => "read",
            AccessKind::Write => "written",
        };
        let (thread, block) = (&self.threads[touch.thread], &self.blocks[touch.block]);
        let by = format!("{done} by thread {thread} of block {block}");
        let name = |buffer: &Buffer| &self.func.buffers[*buffer].name;
        match touch.at {
            Some(Stmt::Store { buffer, .. }) => format!("{by} in the store to `{}`", name(buffer)),
            Some(Stmt::For(l)) => {
                format!("{by} for the bounds of loop `{}`", self.func.vars[l.var].name)
            }
            Some(Stmt::Let { var, .. }) => {
                format!("{by} for the value of `{}`", self.func.vars[*var].name)
            }
            _ => format!("{by} in a condition"),
        }
    }
}
