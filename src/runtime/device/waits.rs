//! Waits of host code for a device, counted on each thread by reason.
//!
//! A program's calls are enqueued and the host goes on. Where it needs a value it waits until the device
//! is there, and that is what costs a program its lead.

use std::cell::Cell;
use std::fmt;

/// A reason to wait for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// A condition of the program.
    Condition,
    /// A shape that a tensor holds.
    Shape,
    /// An index tensor that is checked before a kernel reads it.
    IndexCheck,
    /// An argument of a kernel that the CPU runs for the device.
    CpuKernel,
    /// A copy to the host: a result that is read, or a tensor that the program moves.
    Copy,
}

impl Wait {
    /// Every reason.
    pub const ALL: [Wait; 5] =
        [Wait::Condition, Wait::Shape, Wait::IndexCheck, Wait::CpuKernel, Wait::Copy];

    /// Its name, for one and for several.
    fn name(self, count: u64) -> &'static str {
        match (self, count == 1) {
            (Wait::Condition, true) => "condition",
            (Wait::Condition, false) => "conditions",
            (Wait::Shape, true) => "shape",
            (Wait::Shape, false) => "shapes",
            (Wait::IndexCheck, true) => "check of indices",
            (Wait::IndexCheck, false) => "checks of indices",
            (Wait::CpuKernel, true) => "argument of a kernel on the CPU",
            (Wait::CpuKernel, false) => "arguments of kernels on the CPU",
            (Wait::Copy, true) => "copy to the host",
            (Wait::Copy, false) => "copies to the host",
        }
    }
}

/// The waits of a thread, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitCounts([u64; Wait::ALL.len()]);

impl WaitCounts {
    /// The waits for a reason.
    pub fn of(&self, wait: Wait) -> u64 {
        self.0[wait as usize]
    }

    /// The waits after `earlier` counts of the same thread.
    #[must_use]
    pub fn since(&self, earlier: &WaitCounts) -> WaitCounts {
        let mut counts = *self;
        counts.0.iter_mut().zip(earlier.0).for_each(|(now, then)| *now -= then.min(*now));
        counts
    }

    /// Whether there was none.
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|count| *count == 0)
    }
}

impl fmt::Display for WaitCounts {
    /// `1 condition, 2 shapes`: reasons without a wait are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there = Wait::ALL.into_iter().map(|wait| (wait, self.of(wait)));
        for (n, (wait, count)) in there.filter(|(_, count)| *count > 0).enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            write!(f, "{comma}{count} {}", wait.name(count))?;
        }
        Ok(())
    }
}

thread_local! {
    static COUNTS: Cell<WaitCounts> = const { Cell::new(WaitCounts([0; Wait::ALL.len()])) };
}

/// Counts a wait of this thread.
pub(crate) fn count(wait: Wait) {
    super::batch::spoil_any(wait.name(1));
    // A thread that ends counts no more.
    let _ = COUNTS.try_with(|counts| {
        let mut now = counts.get();
        now.0[wait as usize] += 1;
        counts.set(now);
    });
}

/// The waits of this thread so far.
///
/// ```
/// use reflex_runtime::device::waits::{Wait, counts};
/// let before = counts();
/// assert_eq!(counts().since(&before).of(Wait::Condition), 0);
/// ```
pub fn counts() -> WaitCounts {
    COUNTS.try_with(Cell::get).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_counted_by_reason() {
        let before = counts();
        assert!(counts().since(&before).is_zero());
        [Wait::Shape, Wait::Copy, Wait::Shape].into_iter().for_each(count);
        let found = counts().since(&before);
        assert_eq!((found.of(Wait::Shape), found.of(Wait::Copy)), (2, 1));
        assert_eq!(found.to_string(), "2 shapes, 1 copy to the host");
    }
}
