//! Matches: patterns are resolved, become a decision tree, and that becomes branches.

use std::collections::{BTreeMap, HashMap};

use reflex_tir::DType;

use super::func::{FuncLowerer, Item, Lifted, Term};
use super::tree::{Decision, Pat, Place, PlaceOf, Tree, decide};
use super::types::Ty;
use crate::relay::ast::{Arm, Expr, Param, Pattern, PatternKind};
use crate::relay::source::{Offset, Result};
use crate::{ConstructorRef, DataOp, LeafExpr, Node, Type, Value};

/// A match that is being lowered.
struct Match<'c, 'p> {
    at: Offset,
    arms: &'c [Arm],
    decision: &'p Decision<'p>,
    /// Arms that several leaves reach: functions of their variables.
    shared: HashMap<usize, Shared<'c>>,
}

/// An arm as a function.
struct Shared<'c> {
    function: Lifted,
    vars: Vec<&'c Param>,
}

/// Parts of the matched value that a body has read.
type Parts = HashMap<Place, Term>;

impl<'c> FuncLowerer<'c, '_, '_> {
    pub(super) fn matching(
        &mut self,
        at: Offset,
        value: &'c Expr,
        complete: bool,
        arms: &'c [Arm],
    ) -> Result<Term> {
        let value = self.expr(value)?;
        let mut types = BTreeMap::new();
        let patterns = arms.iter().map(|arm| self.resolve(&arm.pattern, &value.ty, &mut types));
        let patterns: Vec<Pat<'c>> = patterns.collect::<Result<_>>()?;
        let decision = decide(&patterns, self.b.module());
        let decision = decision.map_err(|message| self.refuse(at, message))?;
        if complete && let Some(missing) = failure(&decision.tree) {
            let text = format!("no arm handles `{missing}`: add one, or write `match?`");
            return Err(self.refuse(at, text));
        }
        let mut m = Match { at, arms, decision: &decision, shared: HashMap::new() };
        let mut uses: BTreeMap<usize, usize> = BTreeMap::new();
        count(&decision.tree, &mut uses);
        for (arm, _) in uses.iter().filter(|(_, uses)| **uses > 1) {
            let shared = self.shared_arm(&arms[*arm], &types)?;
            m.shared.insert(*arm, shared);
        }
        let parts = Parts::from([(0, value)]);
        self.decide(&m, &decision.tree, parts, None)
    }

    /// A pattern with its names resolved; its types are made those of the value. `types` gets the
    /// types of variables.
    fn resolve(
        &mut self,
        pattern: &'c Pattern,
        ty: &Ty,
        types: &mut BTreeMap<Offset, Ty>,
    ) -> Result<Pat<'c>> {
        match &pattern.kind {
            PatternKind::Wildcard => Ok(Pat::Any(None)),
            PatternKind::Var(var) => {
                if let Some(written) = &var.ty {
                    let written = self.written(written)?;
                    self.unify(var.at, &written, ty)?;
                }
                types.insert(var.at, ty.clone());
                Ok(Pat::Any(Some(var)))
            }
            PatternKind::Constructor(name, fields) => {
                let Some(found) = self.cx.constructor(name) else {
                    let message = format!("there is no constructor `{name}`");
                    return Err(self.refuse(pattern.at, message));
                };
                self.check_count(pattern.at, found.fields.len(), fields.len())?;
                self.unify(pattern.at, &found.result, ty)?;
                let fields = fields.iter().zip(&found.fields);
                let fields =
                    fields.map(|(p, ty)| self.resolve(p, ty, types)).collect::<Result<_>>()?;
                Ok(Pat::Constructor(found.constructor, fields))
            }
            PatternKind::Tuple(items) => {
                let fresh = || self.cx.types.borrow_mut().fresh();
                let parts: Vec<Ty> = items.iter().map(|_| fresh()).collect();
                self.unify(pattern.at, &Ty::Tuple(parts.clone()), ty)?;
                let items = items.iter().zip(&parts);
                let items =
                    items.map(|(p, ty)| self.resolve(p, ty, types)).collect::<Result<_>>()?;
                Ok(Pat::Tuple(items))
            }
        }
    }

    /// An arm as a function of its variables and what it captures.
    fn shared_arm(&mut self, arm: &'c Arm, types: &BTreeMap<Offset, Ty>) -> Result<Shared<'c>> {
        let mut vars = vec![];
        variables(&arm.pattern, &mut vars);
        let function = self.lift_arm(arm, &vars, types)?;
        Ok(Shared { function, vars })
    }

    fn decide(
        &mut self,
        m: &Match<'c, '_>,
        tree: &Tree<'_>,
        mut parts: Parts,
        like: Option<Term>,
    ) -> Result<Term> {
        match tree {
            Tree::Arm(arm, vars) => self.arm(m, *arm, vars, parts),
            Tree::Fail(missing) => Ok(self.fail(missing, like)),
            Tree::Test { at, constructor, then, otherwise } => {
                let value = self.part(m, *at, &mut parts)?.value;
                let (op, constructor) = (DataOp::Is, *constructor);
                let node = Node::Data { op, constructor, args: vec![value] };
                let cond = self.b.bind_values(node, vec![Type::Prim(DType::BOOL)])[0];
                let inner = parts.clone();
                let then = self.side(m.at, |this| this.decide(m, then, inner, None))?;
                let like = Some(then.1.clone());
                let otherwise = self.side(m.at, |this| this.decide(m, otherwise, parts, like))?;
                self.join(m.at, cond, then, otherwise)
            }
        }
    }

    fn arm(
        &mut self,
        m: &Match<'c, '_>,
        arm: usize,
        vars: &[(&Param, Place)],
        mut parts: Parts,
    ) -> Result<Term> {
        let mut terms = vec![];
        for (var, place) in vars {
            terms.push((*var, self.part(m, *place, &mut parts)?));
        }
        let Some(shared) = m.shared.get(&arm) else {
            self.scopes.push(HashMap::new());
            for (var, term) in terms {
                self.define(&var.name, Item::Term(term));
            }
            let result = self.block(&m.arms[arm].body);
            self.scopes.pop();
            return result;
        };
        let value_of = |var: &&Param| {
            let found = terms.iter().find(|(name, _)| name.at == var.at);
            found.map(|(_, term)| term.value)
        };
        let mut args: Vec<Value> = shared.vars.iter().filter_map(value_of).collect();
        args.extend(shared.function.bound.iter().map(|term| term.value));
        let result = shared.function.result.clone();
        let value = self.call_func(shared.function.func, args, &result);
        Ok(Term { value, ty: result })
    }

    /// A part of the matched value.
    fn part(&mut self, m: &Match<'c, '_>, place: Place, parts: &mut Parts) -> Result<Term> {
        if let Some(term) = parts.get(&place) {
            return Ok(term.clone());
        }
        let term = match m.decision.places[place] {
            PlaceOf::Root => return Err(self.refuse(m.at, "a match without a value")),
            PlaceOf::Field(of, constructor, index) => {
                let whole = self.part(m, of, parts)?;
                self.field(m.at, &whole, constructor, index)?
            }
            PlaceOf::Item(of, index, _) => {
                let whole = self.part(m, of, parts)?;
                match self.shallow(&whole.ty) {
                    Ty::Tuple(types) if index < types.len() => self.item(&whole, index, &types),
                    _ => return Err(self.refuse(m.at, "a tuple pattern for no tuple")),
                }
            }
        };
        parts.insert(place, term.clone());
        Ok(term)
    }

    fn field(
        &mut self,
        at: Offset,
        whole: &Term,
        constructor: ConstructorRef,
        index: usize,
    ) -> Result<Term> {
        let module = self.b.module();
        let name = module.constructor(constructor).map(|c| c.name.clone());
        let Some(found) = name.and_then(|name| self.cx.constructor(&name)) else {
            return Err(self.refuse(at, "a constructor that does not exist"));
        };
        self.unify(at, &found.result, &whole.ty)?;
        let (op, args) = (DataOp::Field(index), vec![whole.value]);
        let node = Node::Data { op, constructor, args };
        let value = self.b.bind_values(node, vec![Type::Object])[0];
        Ok(Term { value, ty: found.fields[index].clone() })
    }

    /// Ends the run: no arm fits. The value that never is has the type of the other arms.
    fn fail(&mut self, missing: &str, like: Option<Term>) -> Term {
        let text = format!("no arm of a `match` in `{}` handles `{missing}`", self.b.func_name());
        let text = self.leaf(LeafExpr::Str(text), Type::Object);
        let (ty, outer) = match like {
            Some(term) => (term.ty.clone(), self.erase_like(&term)),
            None => (self.cx.types.borrow_mut().fresh(), Type::Object),
        };
        let value = self.packed("relay.fatal", vec![text], outer);
        Term { value, ty }
    }

    /// The type that stands for a value of another body.
    fn erase_like(&mut self, term: &Term) -> Type {
        match self.b.ty(term.value) {
            Type::Object => Type::Object,
            _ => self.erase(&term.ty),
        }
    }

    /// Lifts an arm: its variables are parameters.
    fn lift_arm(
        &mut self,
        arm: &'c Arm,
        vars: &[&'c Param],
        types: &BTreeMap<Offset, Ty>,
    ) -> Result<Lifted> {
        let args: Vec<Ty> = vars.iter().map(|var| types[&var.at].clone()).collect();
        self.lift_block(&arm.body, vars, args)
    }
}

/// The variables of a pattern.
fn variables<'c>(pattern: &'c Pattern, out: &mut Vec<&'c Param>) {
    match &pattern.kind {
        PatternKind::Wildcard => {}
        PatternKind::Var(var) => out.push(var),
        PatternKind::Constructor(_, parts) | PatternKind::Tuple(parts) => {
            parts.iter().for_each(|part| variables(part, out));
        }
    }
}

/// The first pattern that no arm handles.
fn failure<'t>(tree: &'t Tree<'_>) -> Option<&'t str> {
    match tree {
        Tree::Arm(..) => None,
        Tree::Fail(missing) => Some(missing),
        Tree::Test { then, otherwise, .. } => failure(then).or_else(|| failure(otherwise)),
    }
}

/// Counts the leaves of each arm.
fn count(tree: &Tree<'_>, uses: &mut BTreeMap<usize, usize>) {
    match tree {
        Tree::Arm(arm, _) => *uses.entry(*arm).or_default() += 1,
        Tree::Fail(_) => {}
        Tree::Test { then, otherwise, .. } => {
            count(then, uses);
            count(otherwise, uses);
        }
    }
}
