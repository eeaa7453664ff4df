//! The code-cache budget: the most bytes of machine code, and the bytes that there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use reflex_codemem::pages::PAGE;

use crate::error::JitError;

/// The bytes of machine code that may exist at the same time.
#[derive(Debug)]
pub(crate) struct CodeBudget {
    limit: usize,
    /// Bytes that exist.
    live: AtomicUsize,
    /// Bytes of these that are evicted and wait for sessions to leave the code.
    retiring: AtomicUsize,
}

/// Bytes of the budget that are taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<CodeBudget>,
    bytes: usize,
    retiring: AtomicBool,
}

impl CodeBudget {
    pub(crate) fn new(limit: usize) -> Arc<CodeBudget> {
        Arc::new(CodeBudget { limit, live: AtomicUsize::new(0), retiring: AtomicUsize::new(0) })
    }

    /// Reserves the pages that `bytes` of code take.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Arc<Reservation>, JitError> {
        let bytes = whole_pages(bytes);
        let retiring = AtomicBool::new(false);
        let reservation = Reservation { budget: Arc::clone(self), bytes, retiring };
        // Counted first: threads that publish together must not exceed the limit.
        if self.live.fetch_add(bytes, Ordering::Relaxed) + bytes > self.limit {
            return Err(JitError::limit(self.limit));
        }
        Ok(Arc::new(reservation))
    }

    /// The most bytes that may exist.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes that exist.
    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Returns true if `bytes` of code fit now.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        self.live() + whole_pages(bytes) <= self.limit
    }

    /// Bytes to evict so that `bytes` of code fit once sessions have left the evicted code. `None`
    /// if they can never fit.
    pub(crate) fn bytes_to_evict(&self, bytes: usize) -> Option<usize> {
        let staying = self.live().saturating_sub(self.retiring.load(Ordering::Relaxed));
        let needed = whole_pages(bytes);
        (needed <= self.limit).then(|| (staying + needed).saturating_sub(self.limit))
    }
}

fn whole_pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE)
}

impl Reservation {
    /// Bytes of the pages.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Marks the code as evicted: its bytes count until the last session has left it.
    pub(crate) fn retire(&self) {
        if !self.retiring.swap(true, Ordering::Relaxed) {
            self.budget.retiring.fetch_add(self.bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if *self.retiring.get_mut() {
            self.budget.retiring.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        self.budget.live.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
