//! Whether a pattern matches a value of a body.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::call_view::{CallView, Operand, views};
use super::{Callee, Link, Pattern, PatternKind};
use crate::registered::AttrValue;
use crate::{Body, Const, Func, FuncData, FuncId, LeafExpr, Module, Node, TensorType, Value};

/// Deepest nesting of patterns that is matched.
const MAX_DEPTH: usize = 256;
/// Most values that are tried for patterns that match together.
const MAX_TRIES: usize = 1 << 16;

/// Matches patterns against the values of one body.
pub struct Matcher<'a> {
    module: &'a Module,
    func: &'a Func,
    body: &'a Body,
    views: HashMap<usize, CallView>,
    /// The binding of the body, and the number of the output, that each value is of.
    defs: HashMap<Value, (usize, usize)>,
    /// Constants of the whole function.
    consts: HashMap<Value, Const>,
    /// The bindings that read each value; results of the body and nested bodies read at `usize::MAX`.
    readers: HashMap<Value, BTreeSet<usize>>,
}

/// A pattern that matched.
#[derive(Clone, Debug, Default)]
pub struct Match {
    /// The bindings of the body that calls of the pattern stand for.
    pub bindings: BTreeSet<usize>,
    values: HashMap<usize, Value>,
    /// Patterns that stand for values of one shape.
    same_shapes: Vec<(usize, usize)>,
}

impl Match {
    /// The value that a part of the pattern stands for.
    pub fn value(&self, part: &Pattern) -> Option<Value> {
        self.values.get(&part.id()).copied()
    }
}

impl<'a> Matcher<'a> {
    /// Matches against the values of a body of a function.
    pub fn new(module: &'a Module, func: &'a Func, body: &'a Body) -> Matcher<'a> {
        let (mut defs, mut consts, mut readers) =
            (HashMap::new(), HashMap::new(), HashMap::<Value, BTreeSet<usize>>::new());
        for (at, binding) in body.bindings.iter().enumerate() {
            for (number, output) in binding.outputs.iter().enumerate() {
                defs.insert(*output, (at, number));
            }
            binding.node.operands(&mut |v| _ = readers.entry(v).or_default().insert(at));
            for nested in binding.node.bodies() {
                nested.uses(&mut |v| _ = readers.entry(v).or_default().insert(usize::MAX));
            }
        }
        for result in &body.results {
            readers.entry(*result).or_default().insert(usize::MAX);
        }
        func.body.walk(&mut |binding| {
            if let Node::Const(id) = binding.node {
                consts.extend(binding.outputs.iter().map(|value| (*value, id)));
            }
        });
        let views = views(module, func, body);
        Matcher { module, func, body, views, defs, consts, readers }
    }

    /// The match of a pattern at a value, if there is one.
    pub fn find(&self, pattern: &Pattern, value: Value) -> Option<Match> {
        let mut search = Search { cx: self, found: Match::default(), depth: 0 };
        search.value(pattern, value).then_some(search.found)
    }

    /// The first match of several patterns at once, each at another value of the body. Parts that they share stand for
    /// one value, so products of one input are found by three patterns with one input.
    ///
    /// # Errors
    /// There are too many values to try.
    pub fn find_together(&self, patterns: &[Pattern]) -> Result<Option<Match>, String> {
        let values: Vec<Value> =
            self.body.bindings.iter().flat_map(|binding| &binding.outputs).copied().collect();
        let mut search = Search { cx: self, found: Match::default(), depth: 0 };
        let (mut taken, mut tries) = (vec![], 0);
        let found = search.together(patterns, &values, &mut taken, &mut tries);
        match (found, tries > MAX_TRIES) {
            (true, _) => Ok(Some(search.found)),
            (false, true) => {
                Err(format!("{} patterns match together in too many ways", patterns.len()))
            }
            (false, false) => Ok(None),
        }
    }

    /// As [`Matcher::find_together`], where the first pattern stands for `first` and the others for values of
    /// bindings that are not in `without`.
    pub fn find_together_at(
        &self,
        patterns: &[Pattern],
        first: Value,
        without: &HashSet<usize>,
    ) -> Result<Option<Match>, String> {
        let Some((root, rest)) = patterns.split_first() else { return Ok(None) };
        let bindings = self.body.bindings.iter().enumerate();
        let values: Vec<Value> = bindings
            .filter(|(at, _)| !without.contains(at))
            .flat_map(|(_, binding)| &binding.outputs)
            .copied()
            .collect();
        let mut search = Search { cx: self, found: Match::default(), depth: 0 };
        let (mut taken, mut tries) = (vec![first], 0);
        let found =
            search.value(root, first) && search.together(rest, &values, &mut taken, &mut tries);
        match (found, tries > MAX_TRIES) {
            (true, _) => Ok(Some(search.found)),
            (false, true) => {
                Err(format!("{} patterns match together in too many ways", patterns.len()))
            }
            (false, false) => Ok(None),
        }
    }

    /// The call of an operator that a binding is.
    pub fn call(&self, binding: usize) -> Option<&CallView> {
        self.views.get(&binding)
    }

    /// The binding of the body that a value is of.
    pub fn definition(&self, value: Value) -> Option<usize> {
        self.defs.get(&value).map(|(at, _)| *at)
    }

    /// Whether a value is a constant.
    pub fn is_const(&self, value: Value) -> bool {
        self.consts.contains_key(&value)
    }

    /// The bindings of the body that read a value; `usize::MAX` stands for whatever else does.
    pub fn readers(&self, value: Value) -> impl Iterator<Item = usize> {
        self.readers.get(&value).into_iter().flatten().copied()
    }

    fn tensor(&self, value: Value) -> Option<&TensorType> {
        self.func.values[value].ty.as_tensor()
    }
}

struct Search<'a, 'b> {
    cx: &'b Matcher<'a>,
    found: Match,
    depth: usize,
}

impl Search<'_, '_> {
    /// Tries `body`; what it found is forgotten if it fails.
    fn attempt(&mut self, body: impl FnOnce(&mut Self) -> bool) -> bool {
        let before = self.found.clone();
        let matched = body(self);
        if !matched {
            self.found = before;
        }
        matched
    }

    fn value(&mut self, pattern: &Pattern, value: Value) -> bool {
        if let Some(known) = self.found.values.get(&pattern.id()) {
            return *known == value;
        }
        if self.depth == MAX_DEPTH {
            return false;
        }
        self.depth += 1;
        let matched = self.attempt(|search| {
            search.matches(pattern, value) && {
                search.found.values.insert(pattern.id(), value);
                search.shapes_agree(pattern.id())
            }
        });
        self.depth -= 1;
        matched
    }

    /// Whether the patterns that have the shape of this one stand for values that do.
    fn shapes_agree(&self, id: usize) -> bool {
        let shape = |id: &usize| {
            let value = self.found.values.get(id)?;
            Some(self.cx.tensor(*value).map(|ty| &ty.shape))
        };
        let of = self.found.same_shapes.iter().filter(|(a, b)| *a == id || *b == id);
        of.into_iter().all(|(a, b)| match (shape(a), shape(b)) {
            (Some(a), Some(b)) => a.is_some() && a == b,
            _ => true,
        })
    }

    /// Matches each pattern at a value that no other one took.
    fn together(
        &mut self,
        patterns: &[Pattern],
        values: &[Value],
        taken: &mut Vec<Value>,
        tries: &mut usize,
    ) -> bool {
        let Some((first, rest)) = patterns.split_first() else { return true };
        for value in values {
            *tries += 1;
            if *tries > MAX_TRIES {
                return false;
            }
            if taken.contains(value) {
                continue;
            }
            taken.push(*value);
            let found = self.attempt(|search| {
                search.value(first, *value) && search.together(rest, values, taken, tries)
            });
            if found {
                return true;
            }
            taken.retain(|v| v != value);
        }
        false
    }

    /// Matches each field with another one of the items.
    fn unordered<T>(
        &mut self,
        fields: &[Pattern],
        items: &[T],
        taken: &mut Vec<usize>,
        matches: &dyn Fn(&mut Self, &Pattern, &T) -> bool,
    ) -> bool {
        let Some((first, rest)) = fields.split_first() else { return true };
        (0..items.len()).any(|at| {
            if taken.contains(&at) {
                return false;
            }
            taken.push(at);
            let found = self.attempt(|search| {
                matches(search, first, &items[at]) && search.unordered(rest, items, taken, matches)
            });
            if !found {
                taken.pop();
            }
            found
        })
    }

    fn matches(&mut self, pattern: &Pattern, value: Value) -> bool {
        let cx = self.cx;
        match pattern.kind() {
            PatternKind::Wildcard => true,
            PatternKind::Const => cx.is_const(value),
            PatternKind::Literal(wanted) => {
                let own = cx.consts.get(&value).map(|id| &cx.module.consts[*id]);
                own.is_some_and(|own| {
                    own.dtype() == wanted.dtype()
                        && own.shape() == wanted.shape()
                        && own.bytes() == wanted.bytes()
                })
            }
            PatternKind::DataflowVar(name) => {
                let bound = cx.defs.contains_key(&value) && !cx.is_const(value);
                bound
                    && !cx.body.results.contains(&value)
                    && (name.is_empty() || cx.func.values[value].name == *name)
            }
            PatternKind::Var(name) => {
                cx.func.params.contains(&value)
                    && (name.is_empty() || cx.func.values[value].name == *name)
            }
            PatternKind::Call { callee, args, more } => {
                let Some(&(at, _)) = cx.defs.get(&value) else { return false };
                cx.body.bindings[at].outputs.len() == 1
                    && self.call(at, callee, args.as_deref(), *more)
            }
            PatternKind::Tuple(fields) => {
                let Some(at) = cx.definition(value) else { return false };
                let Node::Tuple(values) = &cx.body.bindings[at].node else { return false };
                self.found.bindings.insert(at);
                values.len() == fields.len()
                    && fields.iter().zip(values).all(|(field, value)| self.value(field, *value))
            }
            PatternKind::UnorderedTuple(fields) => {
                let Some(at) = cx.definition(value) else { return false };
                let Node::Tuple(values) = &cx.body.bindings[at].node else { return false };
                self.found.bindings.insert(at);
                let matches =
                    |search: &mut Self, field: &Pattern, value: &Value| search.value(field, *value);
                values.len() == fields.len()
                    && self.unordered(fields, values, &mut vec![], &matches)
            }
            PatternKind::SameShape(inner, others) => {
                if !self.value(inner, value) {
                    return false;
                }
                for other in others {
                    self.found.same_shapes.push((inner.id(), other.id()));
                }
                self.shapes_agree(inner.id())
            }
            PatternKind::TupleGet(tuple, index) => self.field(tuple, *index, value),
            PatternKind::Or(a, b) => self.value(a, value) || self.value(b, value),
            PatternKind::And(a, b) => self.value(a, value) && self.value(b, value),
            PatternKind::Not(inner) => {
                let before = self.found.clone();
                let matched = self.value(inner, value);
                self.found = before;
                !matched
            }
            PatternKind::DType(inner, dtype) => {
                cx.tensor(value).is_some_and(|ty| ty.dtype == *dtype) && self.value(inner, value)
            }
            PatternKind::Shape(inner, dims) => {
                let shape = cx.tensor(value).map(|ty| &ty.shape);
                shape.is_some_and(|shape| fits(dims, shape.iter().map(|dim| dim.as_int())))
                    && self.value(inner, value)
            }
            PatternKind::Attrs(inner, attrs) => {
                let call = cx.definition(value).and_then(|at| cx.views.get(&at));
                let has = |call: &CallView, (name, wanted): &(String, AttrValue)| {
                    call.attrs.iter().any(|(own, value)| own == name && value.same(wanted))
                };
                call.is_some_and(|call| attrs.iter().all(|attr| has(call, attr)))
                    && self.value(inner, value)
            }
            PatternKind::ShapeOperand(_) | PatternKind::ExternFunc(_) => false,
            PatternKind::GlobalVar(_) | PatternKind::Function(..) => {
                let Some(at) = cx.definition(value) else { return false };
                match cx.body.bindings[at].node {
                    Node::Leaf(LeafExpr::Func(func)) => self.function(pattern, func),
                    _ => false,
                }
            }
            PatternKind::Chain(patterns, links) => {
                let Some((last, before)) = patterns.split_last() else { return false };
                self.value(last, value) && self.chain(before, links, value)
            }
        }
    }

    /// Whether patterns match a chain of values that ends among the operands of `user`.
    fn chain(&mut self, patterns: &[Pattern], links: &[Link], user: Value) -> bool {
        let Some((last, before)) = patterns.split_last() else { return true };
        let Some(link) = links.get(before.len()) else { return false };
        let Some(at) = self.cx.definition(user) else { return false };
        let mut operands = vec![];
        self.cx.body.bindings[at].node.operands(&mut |v| operands.push(v));
        operands.into_iter().any(|operand| {
            let alone =
                *link == Link::UsedBy || self.cx.readers(operand).all(|reader| reader == at);
            alone
                && self.attempt(|search| {
                    search.value(last, operand) && search.chain(before, links, operand)
                })
        })
    }

    fn call(&mut self, at: usize, callee: &Callee, args: Option<&[Pattern]>, more: bool) -> bool {
        let cx = self.cx;
        let of_values = |values: &[Value]| values.iter().map(|v| Operand::Value(*v)).collect();
        let operands: Vec<Operand> = match (callee, &cx.body.bindings[at].node) {
            (Callee::Op(name), Node::Op { .. }) => match cx.views.get(&at) {
                Some(view) if view.op == *name => view.args.clone(),
                _ => return false,
            },
            (Callee::Packed(wanted), Node::CallPacked { name, args, .. }) if name == wanted => {
                of_values(args)
            }
            (Callee::Kernel(wanted), Node::CallTir { func, args, .. }) => {
                let name = cx.module.funcs.get(*func).map(FuncData::name);
                if !wanted.is_empty() && name != Some(wanted) {
                    return false;
                }
                of_values(args)
            }
            (Callee::Function(function), Node::CallFunc { func, args })
                if self.function(function, *func) =>
            {
                of_values(args)
            }
            _ => return false,
        };
        if let Some(args) = args {
            let count = operands.len() == args.len() || more && operands.len() > args.len();
            if !count
                || !args.iter().zip(&operands).all(|(arg, operand)| self.operand(arg, operand))
            {
                return false;
            }
        }
        self.found.bindings.insert(at);
        true
    }

    /// Whether a function of the module is one that the pattern is of. Its body has values of its own.
    fn function(&self, pattern: &Pattern, func: FuncId) -> bool {
        let cx = self.cx;
        match pattern.kind() {
            PatternKind::GlobalVar(name) => {
                let called = cx.module.funcs.get(func).map(FuncData::name);
                name.is_empty() || called == Some(name)
            }
            PatternKind::Function(params, result) => {
                let Some(FuncData::Graph(inner)) = cx.module.funcs.get(func) else { return false };
                if self.depth == MAX_DEPTH {
                    return false;
                }
                let matcher = Matcher::new(cx.module, inner, &inner.body);
                let (found, depth) = (Match::default(), self.depth + 1);
                let mut search = Search { cx: &matcher, found, depth };
                let mut all = |patterns: &[Pattern], values: &[Value]| {
                    patterns.len() == values.len()
                        && patterns.iter().zip(values).all(|(p, value)| search.value(p, *value))
                };
                if !params.as_ref().is_none_or(|params| all(params, &inner.params)) {
                    return false;
                }
                match (result.kind(), &inner.body.results[..]) {
                    (_, [_]) => all(std::slice::from_ref(result), &inner.body.results),
                    (PatternKind::Tuple(fields), results) => all(fields, results),
                    (PatternKind::Wildcard, _) => true,
                    _ => false,
                }
            }
            _ => false,
        }
    }

    fn operand(&mut self, pattern: &Pattern, operand: &Operand) -> bool {
        match (operand, pattern.kind()) {
            (Operand::Value(value), _) => self.value(pattern, *value),
            (_, PatternKind::Wildcard) => true,
            (_, PatternKind::Or(a, b)) => {
                self.attempt(|search| search.operand(a, operand)) || self.operand(b, operand)
            }
            (Operand::Const, PatternKind::Const) => true,
            (Operand::Shape(dims), PatternKind::ShapeOperand(wanted)) => {
                fits(wanted, dims.iter().copied())
            }
            (Operand::Tuple(items), PatternKind::UnorderedTuple(fields)) => {
                let matches = |search: &mut Self, field: &Pattern, item: &Operand| {
                    search.operand(field, item)
                };
                items.len() == fields.len() && self.unordered(fields, items, &mut vec![], &matches)
            }
            (Operand::Tuple(items), PatternKind::Tuple(fields)) => {
                items.len() == fields.len()
                    && fields.iter().zip(items).all(|(field, item)| self.operand(field, item))
            }
            _ => false,
        }
    }

    /// A field of a tuple, or one of several results of a binding.
    fn field(&mut self, tuple: &Pattern, index: Option<usize>, value: Value) -> bool {
        let cx = self.cx;
        let Some(&(at, number)) = cx.defs.get(&value) else { return false };
        let binding = &cx.body.bindings[at];
        if let Node::TupleGet(of, field) = &binding.node {
            let found = index.is_none_or(|index| index == *field) && self.value(tuple, *of);
            if found {
                self.found.bindings.insert(at);
            }
            return found;
        }
        let several = binding.outputs.len() > 1 && index.is_none_or(|index| index == number);
        match tuple.kind() {
            PatternKind::Call { callee, args, more } if several => {
                self.call(at, callee, args.as_deref(), *more)
            }
            PatternKind::Wildcard => several,
            _ => false,
        }
    }
}

fn fits(wanted: &[Option<i64>], found: impl ExactSizeIterator<Item = Option<i64>>) -> bool {
    wanted.len() == found.len()
        && wanted.iter().zip(found).all(|(wanted, found)| wanted.is_none() || *wanted == found)
}
