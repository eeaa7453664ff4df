//! Functions inside of functions: lambda lifting, closures and calls.
//!
//! An inner function becomes a function of the module. The values that it captures become further
//! parameters, the last ones. A call by name passes them; a closure that is passed on holds them.

use std::collections::{HashMap, HashSet};

use cranelift_entity::EntityRef;

use super::context::{ConstructorUse, TypeScope};
use super::func::{FuncLowerer, Item, Lifted, Term, is_inlined};
use super::ops::attrs::OpCall;
use super::types::Ty;
use crate::relay::ast::{Block, Expr, ExprKind, Function, Param};
use crate::relay::source::{Offset, Result};
use crate::{DataOp, Func, FuncId, LeafExpr, Node, Type, Value};

/// Parameters and result that the place of a function asks for.
pub(super) type Expected = Option<(Vec<Ty>, Ty)>;

/// A block that becomes a function.
struct LiftedBody<'c, 'n> {
    body: &'c Block,
    inline: bool,
    params: Vec<&'c Param>,
    types: TypeScope,
    /// The name by which it mentions itself.
    name: Option<&'n str>,
}

impl<'c> FuncLowerer<'c, '_, '_> {
    /// Makes an inner function one of the module. It may mention itself by its name.
    pub(super) fn lift(
        &mut self,
        f: &'c Function,
        name: Option<&str>,
        expected: Expected,
    ) -> Result<Lifted> {
        let mut types = self.types.clone();
        for param in &f.type_params {
            types.insert(param.clone(), self.cx.types.borrow_mut().fresh());
        }
        let args = f.params.iter().map(|p| self.cx.optional(p.ty.as_ref(), &types));
        let args: Vec<Ty> = args.collect::<Result<_>>()?;
        let result = self.cx.optional(f.result.as_ref(), &types)?;
        let at = f.body.result.at;
        if let Some((want, want_result)) = expected {
            let want = Ty::Function(want, Box::new(want_result));
            self.unify(at, &want, &Ty::Function(args.clone(), Box::new(result.clone())))?;
        }
        let params: Vec<&'c Param> = f.params.iter().collect();
        self.lift_body(
            LiftedBody { body: &f.body, inline: is_inlined(&f.attrs), params, types, name },
            args,
            result,
        )
    }

    /// Makes a block a function of some variables.
    pub(super) fn lift_block(
        &mut self,
        body: &'c Block,
        params: &[&'c Param],
        args: Vec<Ty>,
    ) -> Result<Lifted> {
        let result = self.cx.types.borrow_mut().fresh();
        let (types, params) = (self.types.clone(), params.to_vec());
        self.lift_body(LiftedBody { body, inline: false, params, types, name: None }, args, result)
    }

    fn lift_body(&mut self, f: LiftedBody<'c, '_>, args: Vec<Ty>, result: Ty) -> Result<Lifted> {
        let at = f.body.result.at;
        let captured = self.captured(f.body);
        let (slot, func) = self.reserve();
        let name_in_module = self.lifted_name(f.name.unwrap_or("fn"), slot);
        let bound: Vec<Term> = captured.iter().flat_map(|(_, item)| terms_of(item)).collect();
        let (cx, numbered) = (self.cx, self.numbered.clone());
        let module = self.b.module_mut();
        let mut inner = FuncLowerer::new(cx, module, &name_in_module, f.types);
        inner.numbered = numbered;
        inner.params(&f.params, &args);
        let own = inner.declare_captured(&captured);
        if let Some(name) = f.name
            && !f.params.iter().any(|p| p.name == name)
        {
            let (args, result) = (args.clone(), result.clone());
            inner.define(name, Item::Function(Lifted { func, bound: own, args, result }));
        }
        let term = inner.block(f.body)?;
        inner.unify(at, &result, &term.ty)?;
        let value = inner.coerce(&term, &result);
        let lifted = inner.b.finish_detached(vec![value], vec!["output0".to_string()]);
        let lifted = Func { is_private: true, inline: f.inline, ..lifted };
        self.cx.lifted.borrow_mut()[slot] = Some(lifted);
        Ok(Lifted { func, bound, args, result })
    }

    /// A place among the functions of the module.
    fn reserve(&self) -> (usize, FuncId) {
        let mut lifted = self.cx.lifted.borrow_mut();
        lifted.push(None);
        let slot = lifted.len() - 1;
        (slot, FuncId::new(self.cx.globals.len() + slot))
    }

    /// A name that no other function has: lifted ones end in numbers of their own.
    fn lifted_name(&self, name: &str, slot: usize) -> String {
        // Names of nested functions would grow with every level.
        let outer: String = self.b.func_name().chars().take(60).collect();
        let mut text = format!("{outer}_{name}_{slot}");
        while self.cx.globals.contains_key(&text) {
            text.insert(0, '_');
        }
        text
    }

    /// The variables that a body mentions and this function has, by first mention.
    pub(super) fn captured(&self, body: &'c Block) -> Vec<(String, Item)> {
        let mut names = vec![];
        let mut seen = HashSet::new();
        mentioned(body, &mut |name| {
            if seen.insert(name) {
                names.push(name);
            }
        });
        let found = names.into_iter().filter_map(|name| Some((name, self.lookup(name)?.clone())));
        found.map(|(name, item)| (name.to_string(), item)).collect()
    }

    /// Declares a parameter for each captured value; returns the parameters.
    pub(super) fn declare_captured(&mut self, captured: &[(String, Item)]) -> Vec<Term> {
        let mut own = vec![];
        for (name, item) in captured {
            let mut param = |this: &mut Self, term: &Term| {
                let erased = this.erase(&term.ty);
                let value = this.b.param_of(name.clone(), erased);
                let term = Term { value, ty: term.ty.clone() };
                own.push(term.clone());
                term
            };
            let item = match item {
                Item::Term(term) => Item::Term(param(self, term)),
                Item::Function(f) => {
                    let bound = f.bound.iter().map(|term| param(self, term)).collect();
                    Item::Function(Lifted { bound, ..f.clone() })
                }
            };
            if self.lookup(name).is_none() {
                self.define(name, item);
            }
        }
        own
    }

    /// A function as a value: a closure when values are bound to it.
    pub(super) fn closure(&mut self, f: &Lifted) -> Term {
        let ty = Ty::Function(f.args.clone(), Box::new(f.result.clone()));
        let mut value = self.leaf(LeafExpr::Func(f.func), Type::Func);
        if !f.bound.is_empty() {
            let bound = f.bound.iter().map(|term| term.value);
            let args: Vec<Value> = std::iter::once(value).chain(bound).collect();
            value = self.packed("vm.builtin.make_closure", args, Type::Func);
        }
        Term { value, ty }
    }

    /// Calls a function of the module. `declared` is the result that it promises by itself.
    pub(super) fn call_func(&mut self, func: FuncId, args: Vec<Value>, declared: &Ty) -> Value {
        let ty = self.erase(declared);
        self.b.bind_values(Node::CallFunc { func, args }, vec![ty])[0]
    }

    /// Calls a function value.
    pub(super) fn invoke(&mut self, callee: &Term, args: Vec<Value>) -> Value {
        let machine = self.leaf(LeafExpr::VmState, Type::Object);
        let args = [machine, callee.value].into_iter().chain(args).collect();
        self.packed("vm.builtin.invoke_closure", args, Type::Object)
    }

    pub(super) fn leaf(&mut self, leaf: LeafExpr, ty: Type) -> Value {
        self.b.bind_values(Node::Leaf(leaf), vec![ty])[0]
    }

    pub(super) fn packed(&mut self, name: &str, args: Vec<Value>, ty: Type) -> Value {
        let node = Node::CallPacked { name: name.to_string(), args, ints: vec![] };
        self.b.bind_values(node, vec![ty])[0]
    }

    /// A constructor as a function value.
    pub(super) fn constructor_value(&mut self, found: ConstructorUse) -> Lifted {
        let (slot, func) = self.reserve();
        let constructor = found.constructor;
        let name = self.b.module().constructor_name(constructor).replace('.', "_");
        let name = self.lifted_name(&name, slot);
        let cx = self.cx;
        let mut inner = FuncLowerer::new(cx, self.b.module_mut(), &name, HashMap::new());
        let fields = (0..found.fields.len()).map(|n| format!("field{n}"));
        let args = fields.map(|name| inner.b.param_of(name, Type::Object)).collect();
        let node = Node::Data { op: DataOp::Construct, constructor, args };
        let value = inner.b.bind_values(node, vec![Type::Object])[0];
        let function = inner.b.finish_detached(vec![value], vec!["output0".to_string()]);
        let function = Func { is_private: true, ..function };
        self.cx.lifted.borrow_mut()[slot] = Some(function);
        Lifted { func, bound: vec![], args: found.fields, result: found.result }
    }

    /// An operator without attributes as a function value, for operands of these types.
    pub(super) fn operator_value(
        &mut self,
        at: Offset,
        name: &str,
        args: Vec<Ty>,
    ) -> Result<Lifted> {
        let (slot, func) = self.reserve();
        let name_in_module = self.lifted_name(&name.replace('.', "_"), slot);
        let cx = self.cx;
        let mut inner = FuncLowerer::new(cx, self.b.module_mut(), &name_in_module, HashMap::new());
        let mut terms = vec![];
        for (number, ty) in args.iter().enumerate() {
            let erased = inner.erase(ty);
            let value = inner.b.param_of(format!("operand{number}"), erased);
            terms.push(Term { value, ty: ty.clone() });
        }
        let term = inner.operator(OpCall::new(cx.source, at, name, terms, &[]))?;
        let result = inner.shallow(&term.ty);
        let function = inner.b.finish_detached(vec![term.value], vec!["output0".to_string()]);
        let function = Func { is_private: true, inline: true, ..function };
        self.cx.lifted.borrow_mut()[slot] = Some(function);
        Ok(Lifted { func, bound: vec![], args, result })
    }

    /// Checks the number of arguments of a call.
    pub(super) fn check_count(&self, at: Offset, want: usize, found: usize) -> Result<()> {
        match want == found {
            true => Ok(()),
            false => Err(self.refuse(at, format!("{found} arguments for {want} parameters"))),
        }
    }
}

/// The values that an item consists of.
fn terms_of(item: &Item) -> Vec<Term> {
    match item {
        Item::Term(term) => vec![term.clone()],
        Item::Function(f) => f.bound.clone(),
    }
}

/// Calls `f` for every variable that a block mentions.
fn mentioned<'a>(block: &'a Block, f: &mut dyn FnMut(&'a str)) {
    block.bindings.iter().for_each(|binding| mentioned_in(&binding.value, f));
    mentioned_in(&block.result, f);
}

fn mentioned_in<'a>(e: &'a Expr, f: &mut dyn FnMut(&'a str)) {
    match &e.kind {
        ExprKind::Var(name) => f(name),
        ExprKind::Tuple(items) => items.iter().for_each(|e| mentioned_in(e, f)),
        ExprKind::Project(e, _) => mentioned_in(e, f),
        ExprKind::Call { callee, args, .. } => {
            mentioned_in(callee, f);
            args.iter().for_each(|e| mentioned_in(e, f));
        }
        ExprKind::Function(function) => mentioned(&function.body, f),
        ExprKind::If(cond, then, otherwise) => {
            mentioned_in(cond, f);
            mentioned(then, f);
            mentioned(otherwise, f);
        }
        ExprKind::Match { value, arms, .. } => {
            mentioned_in(value, f);
            arms.iter().for_each(|arm| mentioned(&arm.body, f));
        }
        ExprKind::Block(block) => mentioned(block, f),
        ExprKind::Global(_)
        | ExprKind::Name(_)
        | ExprKind::Number(_)
        | ExprKind::Bool(_)
        | ExprKind::Meta(_) => {}
    }
}
