//! The module while it is printed: function names, symbols, and the table of large constants.

use std::collections::{BTreeSet, HashMap, HashSet};

use cranelift_entity::SecondaryMap;

use super::{consts, metadata};
use crate::{Const, FuncId, Module};

/// State that the functions of a module share while they are printed.
pub(super) struct Printer<'m> {
    pub module: &'m Module,
    pub names: SecondaryMap<FuncId, String>,
    pub impure: HashSet<FuncId>,
    /// Constants in the metadata table, by index.
    pub large: Vec<Const>,
    metadata_index: HashMap<Const, usize>,
    /// Dimensions that function signatures mention, which a module declares up front.
    pub symbols: BTreeSet<String>,
}

impl<'m> Printer<'m> {
    /// A printer of a module none of whose functions is named yet.
    pub fn new(module: &'m Module, impure: HashSet<FuncId>) -> Printer<'m> {
        Printer {
            module,
            names: SecondaryMap::new(),
            impure,
            large: vec![],
            metadata_index: HashMap::new(),
            symbols: BTreeSet::new(),
        }
    }

    /// The text of a use of a constant.
    pub fn constant(&mut self, id: Const) -> String {
        let Some(literal) = self.module.consts.get(id) else { return id.to_string() };
        if let Some(text) = consts::inline(literal) {
            return text;
        }
        let next = self.large.len();
        let index = *self.metadata_index.entry(id).or_insert(next);
        if index == next {
            self.large.push(id);
        }
        metadata::entry(index)
    }
}
