//! Paths from the root of a graph to a node.

use std::fmt;
use std::sync::Arc;

/// A step from a node to one that it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The field of a name.
    Field(Arc<str>),
    /// The item of an array.
    Item(usize),
    /// The value of a map under a key, as text.
    Key(String),
}

/// The steps from the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(pub Vec<Step>);

/// `<root>.functions["main"].params[0]`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<root>")?;
        for step in &self.0 {
            match step {
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Item(index) => write!(f, "[{index}]")?,
                Step::Key(key) => write!(f, "[{key}]")?,
            }
        }
        Ok(())
    }
}

/// Paths that share their beginnings.
#[derive(Default)]
pub(crate) struct PathArena(Vec<(PathId, Step)>);

/// A path of an arena; 0 is the root.
pub(crate) type PathId = usize;

impl PathArena {
    pub fn push(&mut self, parent: PathId, step: Step) -> PathId {
        self.0.push((parent, step));
        self.0.len()
    }

    pub fn path(&self, mut id: PathId) -> Path {
        let mut steps = vec![];
        while let Some((parent, step)) = id.checked_sub(1).map(|at| &self.0[at]) {
            steps.push(step.clone());
            id = *parent;
        }
        steps.reverse();
        Path(steps)
    }
}
