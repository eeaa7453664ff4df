//! The kernels that a stream was given last: errors come late, and name them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

/// Kernels that an error names, the latest.
const NAMED: usize = 8;

/// The name of a kernel, as a number: a launch notes it by one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelName(u32);

/// The names of this process. They outlive their kernels, which an error may name after they are unloaded, and are few:
/// equal names are one.
#[derive(Debug, Default)]
struct Names {
    numbers: BTreeMap<Arc<str>, u32>,
    all: Vec<Arc<str>>,
}

static NAMES: Mutex<Names> = Mutex::new(Names { numbers: BTreeMap::new(), all: vec![] });

impl KernelName {
    pub(crate) fn new(name: &str) -> KernelName {
        let mut names = NAMES.lock();
        if let Some(number) = names.numbers.get(name) {
            return KernelName(*number);
        }
        let (name, number) = (Arc::<str>::from(name), names.all.len() as u32);
        names.numbers.insert(Arc::clone(&name), number);
        names.all.push(name);
        KernelName(number)
    }

    pub(crate) fn text(self) -> Arc<str> {
        Arc::clone(&NAMES.lock().all[self.0 as usize])
    }
}

/// The launches of a stream, and which of them came since it was last seen to be without an error.
#[derive(Debug, Default)]
pub(crate) struct Launches {
    count: AtomicU64,
    /// Those that have ended well.
    ended: AtomicU64,
    /// The names of the last ones, each at its number's remainder.
    names: [AtomicU32; NAMED],
}

impl Launches {
    /// Adds a launch of a kernel, which is enqueued.
    #[inline]
    pub(crate) fn add(&self, name: KernelName) {
        let number = self.count.fetch_add(1, Ordering::Release);
        self.names[number as usize % NAMED].store(name.0, Ordering::Relaxed);
    }

    /// All launches so far.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Forgets all: they have ended well.
    pub(crate) fn clear(&self) {
        self.ended.store(self.count(), Ordering::Relaxed);
    }

    /// The words for an error: which kernels may have caused it.
    pub(crate) fn suspects(&self) -> String {
        let last = self.count();
        let count = last.saturating_sub(self.ended.load(Ordering::Relaxed));
        let name = |number: u64| {
            KernelName(self.names[number as usize % NAMED].load(Ordering::Relaxed)).text()
        };
        let names = (last - count.min(NAMED as u64)..last).map(name);
        let names = names.collect::<Vec<_>>().join(", ");
        match count {
            0 => "no kernel was launched since the last synchronisation".to_owned(),
            1 => format!("the kernel since the last synchronisation: {names}"),
            count => {
                let earlier = if count > NAMED as u64 { ", after earlier ones" } else { "" };
                format!("the {count} kernels since the last synchronisation{earlier}: {names}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_kernels_are_named() {
        let launches = Launches::default();
        let add = |name: &str| launches.add(KernelName::new(name));
        assert_eq!(launches.suspects(), "no kernel was launched since the last synchronisation");
        add("conv");
        assert_eq!(launches.suspects(), "the kernel since the last synchronisation: conv");
        add("relu");
        let text = launches.suspects();
        assert_eq!(text, "the 2 kernels since the last synchronisation: conv, relu");
        for n in 0..1000 {
            add(&format!("k{n}"));
        }
        let text = launches.suspects();
        assert!(text.starts_with("the 1002 kernels since"), "{text}");
        assert!(
            text.ends_with(", after earlier ones: k992, k993, k994, k995, k996, k997, k998, k999")
        );
        launches.clear();
        assert!(launches.suspects().starts_with("no kernel"));
    }

    #[test]
    fn equal_names_are_one() {
        let name = KernelName::new("softmax");
        assert_eq!(KernelName::new("softmax"), name);
        assert_ne!(KernelName::new("layer_norm"), name);
        assert_eq!(&*name.text(), "softmax");
    }
}
