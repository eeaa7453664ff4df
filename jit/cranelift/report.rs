//! What has been compiled, for people and tests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use reflex_vm::decode::SiteId;

use crate::engine::TraceCode;

/// A function that was compiled whole.
#[derive(Clone, Debug)]
pub struct CodeReport {
    /// The program's identity.
    pub program: u64,
    /// The function.
    pub func: u32,
    /// Bytes of machine code.
    pub code_bytes: usize,
}

/// A compiled trace.
#[derive(Clone, Debug)]
pub struct TraceReport {
    /// The program's identity.
    pub program: u64,
    /// Where the trace starts.
    pub site: SiteId,
    /// The trace as it was recorded, as text.
    pub recorded: String,
    /// The trace as it was compiled, as text.
    pub text: String,
    /// Bytes of machine code.
    pub code_bytes: usize,
    pub(crate) taken: Arc<[AtomicU64]>,
    pub(crate) code: Weak<TraceCode>,
}

impl TraceReport {
    /// How often each exit was taken.
    pub fn exits(&self) -> Vec<u64> {
        self.taken.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// The machine code and its address; none once it is gone.
    pub fn machine_code(&self) -> Option<(usize, Vec<u8>)> {
        let code = self.code.upgrade()?;
        Some((code.published.text().as_ptr().addr(), code.published.text().to_vec()))
    }
}
