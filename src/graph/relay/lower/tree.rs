//! Decision trees of matches.
//!
//! A matrix of patterns becomes a tree of tests of one constructor each, so that no path tests a
//! value twice: Maranget, "Compiling Pattern Matching to Good Decision Trees" (2008), with rows
//! as sets of tests as in Jacobs, "How to compile pattern matching" (2021). Of the tests of the first
//! row, that comes first which most rows ask about.

use std::collections::HashMap;

use crate::relay::ast::Param;
use crate::{ConstructorRef, Module};

/// Most tests after one another, and most nodes of a tree.
const DEPTH_LIMIT: usize = 128;
const NODE_LIMIT: usize = 4096;

/// A pattern whose names are resolved.
pub(super) enum Pat<'a> {
    /// Anything, under a name or without.
    Any(Option<&'a Param>),
    Constructor(ConstructorRef, Vec<Pat<'a>>),
    Tuple(Vec<Pat<'a>>),
}

/// A part of the matched value, by number; the value itself is 0.
pub(super) type Place = usize;

/// Where a part comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum PlaceOf {
    Root,
    /// A field of a value that the constructor made.
    Field(Place, ConstructorRef, usize),
    /// An item of a tuple of so many.
    Item(Place, usize, usize),
}

/// A decision tree.
pub(super) enum Tree<'a> {
    /// An arm, by number, and what its variables are.
    Arm(usize, Vec<(&'a Param, Place)>),
    /// No arm fits; a pattern that is missing.
    Fail(String),
    Test {
        at: Place,
        constructor: ConstructorRef,
        then: Box<Tree<'a>>,
        otherwise: Box<Tree<'a>>,
    },
}

/// A tree and the parts that it mentions.
pub(super) struct Decision<'a> {
    pub tree: Tree<'a>,
    pub places: Vec<PlaceOf>,
}

/// Builds the tree of some patterns, the first that fits first.
pub(super) fn decide<'a>(patterns: &'a [Pat<'a>], module: &Module) -> Result<Decision<'a>, String> {
    let mut builder =
        Builder { module, places: vec![PlaceOf::Root], numbers: HashMap::new(), nodes: 0 };
    let mut rows = vec![];
    for (arm, pattern) in patterns.iter().enumerate() {
        let mut row = Row { arm, tests: vec![], vars: vec![] };
        builder.add(&mut row, 0, pattern);
        rows.push(row);
    }
    let tree = builder.tree(rows, &Facts::default(), 0)?;
    Ok(Decision { tree, places: builder.places })
}

/// The tests that are left for an arm.
#[derive(Clone)]
struct Row<'a> {
    arm: usize,
    tests: Vec<(Place, ConstructorRef, &'a [Pat<'a>])>,
    vars: Vec<(&'a Param, Place)>,
}

/// The outcome of the tests on the way.
#[derive(Clone, Default)]
struct Facts {
    is: HashMap<Place, ConstructorRef>,
    is_not: HashMap<Place, Vec<ConstructorRef>>,
}

struct Builder<'m> {
    module: &'m Module,
    places: Vec<PlaceOf>,
    numbers: HashMap<PlaceOf, Place>,
    nodes: usize,
}

impl Builder<'_> {
    fn place(&mut self, of: PlaceOf) -> Place {
        let next = self.places.len();
        let number = *self.numbers.entry(of).or_insert(next);
        if number == next {
            self.places.push(of);
        }
        number
    }

    /// Adds what a pattern asks of a part. Patterns are as deep as their text.
    fn add<'a>(&mut self, row: &mut Row<'a>, at: Place, pattern: &'a Pat<'a>) {
        match pattern {
            Pat::Any(None) => {}
            Pat::Any(Some(var)) => row.vars.push((*var, at)),
            Pat::Constructor(constructor, fields) => row.tests.push((at, *constructor, fields)),
            Pat::Tuple(items) => {
                for (index, item) in items.iter().enumerate() {
                    let part = self.place(PlaceOf::Item(at, index, items.len()));
                    self.add(row, part, item);
                }
            }
        }
    }

    fn tree<'a>(
        &mut self,
        rows: Vec<Row<'a>>,
        facts: &Facts,
        depth: usize,
    ) -> Result<Tree<'a>, String> {
        self.nodes += 1;
        if self.nodes > NODE_LIMIT || depth > DEPTH_LIMIT {
            return Err(format!(
                "a match of more than {DEPTH_LIMIT} tests in a row, or {NODE_LIMIT} in all"
            ));
        }
        let Some(first) = rows.first() else { return Ok(Tree::Fail(self.missing(0, facts))) };
        let asked = |at: Place| rows.iter().filter(|r| r.tests.iter().any(|t| t.0 == at)).count();
        // The first of the tests that most rows ask about.
        let best = first.tests.iter().rev().max_by_key(|test| asked(test.0));
        let Some(&(at, constructor, _)) = best else {
            return Ok(Tree::Arm(first.arm, first.vars.clone()));
        };
        let (mut yes, mut no) = (vec![], vec![]);
        for row in rows {
            match row.tests.iter().position(|test| test.0 == at) {
                None => {
                    yes.push(row.clone());
                    no.push(row);
                }
                Some(n) if row.tests[n].1 == constructor => yes.push(self.inside(row, n)),
                Some(_) => no.push(row),
            }
        }
        let (mut facts_yes, mut facts_no) = (facts.clone(), facts.clone());
        facts_yes.is.insert(at, constructor);
        let excluded = facts_no.is_not.entry(at).or_default();
        let others = excluded.len() + 1;
        excluded.push(constructor);
        let then = self.tree(yes, &facts_yes, depth + 1)?;
        if self.module.data_types[constructor.data_type].constructors.len() == others {
            // No other constructor is left.
            return Ok(then);
        }
        let otherwise = Box::new(self.tree(no, &facts_no, depth + 1)?);
        Ok(Tree::Test { at, constructor, then: Box::new(then), otherwise })
    }

    /// The row after its test has succeeded: the fields are asked about.
    fn inside<'a>(&mut self, mut row: Row<'a>, test: usize) -> Row<'a> {
        let (at, constructor, fields) = row.tests.remove(test);
        for (index, field) in fields.iter().enumerate() {
            let part = self.place(PlaceOf::Field(at, constructor, index));
            self.add(&mut row, part, field);
        }
        row
    }

    /// A pattern of what reaches a failure.
    fn missing(&self, at: Place, facts: &Facts) -> String {
        let part = |of: PlaceOf| self.numbers.get(&of).copied();
        let show = |of: PlaceOf| part(of).map_or("_".to_string(), |p| self.missing(p, facts));
        let items: Vec<usize> = self
            .places
            .iter()
            .filter_map(|of| match of {
                PlaceOf::Item(of, _, count) if *of == at => Some(*count),
                _ => None,
            })
            .collect();
        if let Some(count) = items.first() {
            let items = (0..*count).map(|n| show(PlaceOf::Item(at, n, *count)));
            return format!("({})", items.collect::<Vec<_>>().join(", "));
        }
        let known = facts.is.get(&at).copied().or_else(|| {
            let excluded = facts.is_not.get(&at)?;
            let data_type = excluded.first()?.data_type;
            let count = self.module.data_types[data_type].constructors.len();
            let all = (0..count).map(|index| ConstructorRef { data_type, index });
            all.into_iter().find(|c| !excluded.contains(c))
        });
        let Some(constructor) = known else { return "_".to_string() };
        let Some(found) = self.module.constructor(constructor) else { return "_".to_string() };
        if found.arity == 0 {
            return found.name.clone();
        }
        let fields = (0..found.arity).map(|n| show(PlaceOf::Field(at, constructor, n)));
        format!("{}({})", found.name, fields.collect::<Vec<_>>().join(", "))
    }
}
