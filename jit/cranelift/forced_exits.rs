//! Guards that fail on demand, so that tests reach every side exit.
//!
//! A tier with [`ForcedExits`] emits a coin toss before every guard of its traces. An exit may then be
//! taken although its guard holds, which must not change the results of a program. Other tiers emit
//! nothing for it.

use std::sync::atomic::{AtomicU64, Ordering};

/// A stream of coin tosses shared with generated code.
#[derive(Debug)]
#[repr(C)]
pub struct ForcedExits {
    state: AtomicU64,
    odds: AtomicU64,
}

impl ForcedExits {
    pub(crate) const MULTIPLIER: i64 = 6_364_136_223_846_793_005;
    pub(crate) const INCREMENT: i64 = 1_442_695_040_888_963_407;
    pub(crate) const ODDS_OFFSET: usize = std::mem::offset_of!(ForcedExits, odds);

    /// Tosses determined by `seed` that make one guard in `one_in` fail; 1 makes every guard fail,
    /// 0 none.
    pub fn new(seed: u64, one_in: u32) -> Self {
        let odds = if one_in == 0 { 0 } else { (1u64 << 32) / u64::from(one_in) };
        Self { state: AtomicU64::new(seed), odds: AtomicU64::new(odds) }
    }

    /// Starts the stream again.
    pub fn reseed(&self, seed: u64) {
        self.state.store(seed, Ordering::Relaxed);
    }

    pub(crate) fn state_address(&self) -> usize {
        &raw const self.state as usize
    }
}

const _: () = assert!(std::mem::offset_of!(ForcedExits, state) == 0);
