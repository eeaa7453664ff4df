//! The kernels that a stream was given last: errors come late, and name them.

use std::collections::VecDeque;
use std::sync::Arc;

/// Launches that are remembered.
const REMEMBERED: usize = 256;
/// Kernels that an error names, the latest.
const NAMED: usize = 8;

/// The launches of a stream since it was last seen to be without an error.
#[derive(Debug, Default)]
pub(crate) struct Launches {
    names: VecDeque<Arc<str>>,
    /// Those that are remembered no more.
    forgotten: usize,
}

impl Launches {
    /// Adds a launch of a kernel.
    pub(crate) fn add(&mut self, name: &Arc<str>) {
        if self.names.len() == REMEMBERED {
            self.names.pop_front();
            self.forgotten += 1;
        }
        self.names.push_back(Arc::clone(name));
    }

    /// Forgets all: they have ended well.
    pub(crate) fn clear(&mut self) {
        self.names.clear();
        self.forgotten = 0;
    }

    /// The words for an error: which kernels may have caused it.
    pub(crate) fn suspects(&self) -> String {
        let count = self.names.len() + self.forgotten;
        let skip = self.names.len().saturating_sub(NAMED);
        let names: Vec<&str> = self.names.iter().skip(skip).map(|name| &**name).collect();
        match count {
            0 => "no kernel was launched since the last synchronisation".to_owned(),
            1 => format!("the kernel since the last synchronisation: {}", names.join(", ")),
            count => {
                let earlier = if count > names.len() { ", after earlier ones" } else { "" };
                let names = names.join(", ");
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
        let mut launches = Launches::default();
        assert_eq!(launches.suspects(), "no kernel was launched since the last synchronisation");
        launches.add(&"conv".into());
        assert_eq!(launches.suspects(), "the kernel since the last synchronisation: conv");
        launches.add(&"relu".into());
        let text = launches.suspects();
        assert_eq!(text, "the 2 kernels since the last synchronisation: conv, relu");
        for n in 0..1000 {
            launches.add(&format!("k{n}").into());
        }
        let text = launches.suspects();
        assert!(text.starts_with("the 1002 kernels since"), "{text}");
        assert!(
            text.ends_with(", after earlier ones: k992, k993, k994, k995, k996, k997, k998, k999")
        );
        launches.clear();
        assert!(launches.suspects().starts_with("no kernel"));
    }
}
