//! A function that is being lowered: names, values, and how values get the types they need.

use std::collections::HashMap;

use reflex_tir::Expr as DimExpr;

use super::context::{Context, TypeScope};
use super::types::Ty;
use crate::builder::FuncBuilder;
use crate::relay::ast::{Attr, AttrValue, Block, Def, Expr, ExprKind, Param, Type as WrittenType};
use crate::relay::number::{Number, NumberValue};
use crate::relay::source::{Offset, RelayError, Result};
use crate::{Func, FuncData, FuncId, Module, Node, TensorType, Type, Value};

/// Most bodies inside of one another.
const BODY_LIMIT: usize = 200;

/// A value and its Relay type. The value's own type says less where Relay's is polymorphic.
#[derive(Clone)]
pub(super) struct Term {
    pub value: Value,
    pub ty: Ty,
}

/// The meaning of a variable.
#[derive(Clone)]
pub(super) enum Item {
    Term(Term),
    /// A function of the module with the values bound to its last parameters. It becomes a closure
    /// where it is passed on.
    Function(Lifted),
}

/// A function that was written inside of another.
#[derive(Clone)]
pub(super) struct Lifted {
    pub func: FuncId,
    pub bound: Vec<Term>,
    pub args: Vec<Ty>,
    pub result: Ty,
}

/// A function that is being lowered.
pub(super) struct FuncLowerer<'c, 's, 'm> {
    pub cx: &'c Context<'s>,
    pub b: FuncBuilder<'m>,
    pub scopes: Vec<HashMap<String, Item>>,
    /// Type parameters by name.
    pub types: TypeScope,
    /// The expressions of numbered variables; the text may mention one outside of its block.
    pub numbered: HashMap<String, &'c Expr>,
    /// Expressions lowered once more because of that.
    repeated: usize,
    /// Items of tuples that are built here.
    pub tuples: HashMap<Value, Vec<Value>>,
    bodies: usize,
}

impl<'c, 's, 'm> FuncLowerer<'c, 's, 'm> {
    pub fn new(
        cx: &'c Context<'s>,
        module: &'m mut Module,
        name: &str,
        types: TypeScope,
    ) -> FuncLowerer<'c, 's, 'm> {
        FuncLowerer {
            cx,
            b: FuncBuilder::new(module, name),
            scopes: vec![HashMap::new()],
            types,
            numbered: HashMap::new(),
            repeated: 0,
            tuples: HashMap::new(),
            bodies: 0,
        }
    }

    /// Lowers a function of the module.
    pub fn global(cx: &'c Context<'s>, module: &'m mut Module, def: &'c Def) -> Result<FuncData> {
        let global = &cx.globals[&def.name];
        let mut lowerer = FuncLowerer::new(cx, module, &def.name, cx.scope_of(&def.name));
        lowerer.params(&def.function.params.iter().collect::<Vec<_>>(), &global.args);
        let term = lowerer.block(&def.function.body)?;
        let at = def.function.body.result.at;
        lowerer.unify(at, &global.result, &term.ty)?;
        let value = lowerer.coerce(&term, &global.result);
        let term = Term { value, ty: global.result.clone() };
        let results = match cx.referred.contains(&def.name) {
            true => vec![term.value],
            false => lowerer.outputs(&term),
        };
        let names = (0..results.len()).map(|n| format!("output{n}")).collect();
        let func = lowerer.b.finish_detached(results, names);
        Ok(FuncData::Graph(Func { inline: is_inlined(&def.function.attrs), ..func }))
    }

    /// Declares the parameters.
    pub fn params(&mut self, params: &[&'c Param], types: &[Ty]) {
        for (param, ty) in params.iter().zip(types) {
            let erased = self.erase(ty);
            let value = self.b.param_of(param.name.clone(), erased);
            self.define(&param.name, Item::Term(Term { value, ty: ty.clone() }));
        }
    }

    /// The results of a function that only the host calls: the items of a tuple one by one, and
    /// tensors as such.
    fn outputs(&mut self, term: &Term) -> Vec<Value> {
        match self.shallow(&term.ty) {
            Ty::Tuple(types) if !types.is_empty() => {
                let items =
                    (0..types.len()).map(|n| self.item(term, n, &types)).collect::<Vec<_>>();
                items.iter().map(|item| self.unwrapped(item, 0)).collect()
            }
            _ => vec![self.unwrapped(term, 0)],
        }
    }

    /// A result whose tensors are known to be tensors, in nested tuples too.
    fn unwrapped(&mut self, term: &Term, depth: usize) -> Value {
        match self.shallow(&term.ty) {
            Ty::Tuple(types) if depth < 8 => {
                let items: Vec<Value> = (0..types.len())
                    .map(|n| {
                        let item = self.item(term, n, &types);
                        self.unwrapped(&item, depth + 1)
                    })
                    .collect();
                self.tuple(items)
            }
            ty => self.coerce(term, &ty),
        }
    }

    // Names.

    pub fn define(&mut self, name: &str, item: Item) {
        self.scopes.last_mut().expect("a scope is open").insert(name.to_string(), item);
    }

    pub fn lookup(&self, name: &str) -> Option<&Item> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    /// The meaning of a variable. A number whose block is closed stands for its expression.
    pub fn variable(&mut self, at: Offset, name: &str) -> Result<Item> {
        if let Some(item) = self.lookup(name) {
            return Ok(item.clone());
        }
        match self.numbered.get(name).copied() {
            Some(e) if self.repeated < 1000 => {
                self.repeated += 1;
                self.numbered.remove(name);
                let item = self.item_of(e, None)?;
                self.numbered.insert(name.to_string(), e);
                self.define(name, item.clone());
                Ok(item)
            }
            _ => Err(self.refuse(at, format!("`%{name}` is not defined here"))),
        }
    }

    // Blocks.

    /// The value of a block, in a scope of its own.
    pub fn block(&mut self, block: &'c Block) -> Result<Term> {
        self.scopes.push(HashMap::new());
        let result = self.bindings(block);
        self.scopes.pop();
        result
    }

    fn bindings(&mut self, block: &'c Block) -> Result<Term> {
        for binding in &block.bindings {
            let var = &binding.var;
            let item = match (&binding.value.kind, binding.is_let) {
                (ExprKind::Function(f), true) => {
                    Item::Function(self.lift(f, Some(&var.name), None)?)
                }
                _ => self.item_of(&binding.value, Some(&var.name))?,
            };
            if !binding.is_let {
                self.numbered.insert(var.name.clone(), &binding.value);
            }
            if let Some(ty) = &var.ty {
                let declared = self.written(ty)?;
                let found = item.ty();
                self.unify(var.at, &declared, &found)?;
            }
            if let Item::Term(term) = &item
                && self.b.name(term.value).is_empty()
                && self.b.as_constant(term.value).is_none()
            {
                self.b.set_name(term.value, name_of(&var.name));
            }
            self.define(&var.name, item);
        }
        self.expr(&block.result)
    }

    /// Runs a part inside of a nested body.
    pub fn in_body<T>(
        &mut self,
        at: Offset,
        part: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if self.bodies == BODY_LIMIT {
            let text = format!("branches more than {BODY_LIMIT} levels deep");
            return Err(self.refuse(at, text));
        }
        self.bodies += 1;
        self.scopes.push(HashMap::new());
        self.b.open();
        let result = part(self);
        self.scopes.pop();
        self.bodies -= 1;
        result
    }

    // Types.

    pub fn shallow(&self, ty: &Ty) -> Ty {
        self.cx.types.borrow().shallow(ty)
    }

    /// A type as it is written in this function.
    pub fn written(&self, ty: &WrittenType) -> Result<Ty> {
        self.cx.ty(ty, &self.types)
    }

    /// Makes two types one.
    pub fn unify(&self, at: Offset, want: &Ty, found: &Ty) -> Result<()> {
        let fits = self.cx.types.borrow_mut().unify(want, found);
        fits.map_err(|_| {
            let (want, found) = (self.cx.show(want), self.cx.show(found));
            self.refuse(at, format!("expected {want}, found {found}"))
        })
    }

    /// Refuses types that repeated pairing has made too large.
    pub fn check_size(&self, at: Offset, ty: &Ty) -> Result<()> {
        let fits = self.cx.types.borrow().check_size(ty);
        fits.map_err(|_| self.refuse(at, "a type of too many parts"))
    }

    pub fn refuse(&self, at: Offset, message: impl Into<String>) -> RelayError {
        self.cx.source.refuse(at, message)
    }

    /// The type of a value about which only the Relay type is known.
    pub fn erase(&mut self, ty: &Ty) -> Type {
        match self.shallow(ty) {
            Ty::Tensor(dtype, dims) => Type::Tensor(TensorType::new(dtype, self.dims(&dims))),
            Ty::Tuple(items) => Type::Tuple(vec![Type::Object; items.len()]),
            Ty::Function(..) => Type::Func,
            Ty::Data(..) | Ty::Param(_) | Ty::Unknown(_) => Type::Object,
        }
    }

    fn dims(&mut self, dims: &[Option<i64>]) -> Vec<DimExpr> {
        let dim = |d: &Option<i64>| match d {
            Some(extent) => DimExpr::i64(*extent),
            None => DimExpr::var(self.b.sym("d")),
        };
        dims.iter().map(dim).collect()
    }

    /// The Relay type of a tensor.
    pub fn tensor_ty(&self, value: Value) -> Ty {
        let t = self.b.tensor(value);
        Ty::Tensor(t.dtype, t.shape.iter().map(DimExpr::as_int).collect())
    }

    /// A tensor as a term.
    pub fn term(&self, value: Value) -> Term {
        Term { value, ty: self.tensor_ty(value) }
    }

    /// The value with the type that its users rely on: a tensor of polymorphic origin is checked.
    pub fn coerce(&mut self, term: &Term, ty: &Ty) -> Value {
        let value = self.b.refined(term.value);
        match (self.shallow(ty), self.b.ty(value).clone()) {
            (Ty::Tensor(dtype, dims), Type::Tensor(t))
                if t.dtype == dtype && t.shape.len() == dims.len() =>
            {
                let shape = dims.iter().zip(&t.shape).map(|(want, found)| match want {
                    Some(extent) => DimExpr::i64(*extent),
                    None => found.clone(),
                });
                self.b.match_cast(value, TensorType::new(dtype, shape.collect()))
            }
            (Ty::Tensor(dtype, dims), _) => {
                let shape = self.dims(&dims);
                self.b.match_cast(value, TensorType::new(dtype, shape))
            }
            (Ty::Tuple(items), Type::Object) => {
                self.b.match_cast_of(value, Type::Tuple(vec![Type::Object; items.len()]))
            }
            (Ty::Function(..), Type::Object) => self.b.match_cast_of(value, Type::Func),
            _ => value,
        }
    }

    /// A tensor operand.
    pub fn tensor(&mut self, at: Offset, term: &Term) -> Result<Value> {
        match self.shallow(&term.ty) {
            ty @ Ty::Tensor(..) => Ok(self.coerce(term, &ty)),
            Ty::Unknown(_) => {
                Err(self.refuse(at, "the type of an operand is not known here: annotate it"))
            }
            other => {
                let found = self.cx.show(&other);
                Err(self.refuse(at, format!("expected a tensor, found {found}")))
            }
        }
    }

    /// A tuple of values.
    pub fn tuple(&mut self, items: Vec<Value>) -> Value {
        let types = items.iter().map(|v| self.b.ty(*v).clone()).collect();
        let value = self.b.bind_values(Node::Tuple(items.clone()), vec![Type::Tuple(types)])[0];
        self.tuples.insert(value, items);
        value
    }

    /// An item of a tuple of these types.
    pub fn item(&mut self, tuple: &Term, index: usize, types: &[Ty]) -> Term {
        let ty = types[index].clone();
        if let Some(items) = self.tuples.get(&tuple.value) {
            return Term { value: items[index], ty };
        }
        let value = self.coerce(tuple, &Ty::Tuple(types.to_vec()));
        let item = match self.b.ty(value) {
            Type::Tuple(items) if index < items.len() => items[index].clone(),
            _ => Type::Object,
        };
        let value = self.b.bind_values(Node::TupleGet(value, index), vec![item])[0];
        Term { value, ty }
    }
}

impl Item {
    /// The Relay type.
    pub fn ty(&self) -> Ty {
        match self {
            Item::Term(term) => term.ty.clone(),
            Item::Function(f) => Ty::Function(f.args.clone(), Box::new(f.result.clone())),
        }
    }
}

/// Whether attributes ask for the calls of a function to be inlined, or say that it is one kernel, which is what our
/// own fusion makes of it.
pub(super) fn is_inlined(attrs: &[Attr]) -> bool {
    let is_set = |attr: &Attr| match &attr.value {
        AttrValue::Bool(value) => *value,
        AttrValue::Number(text) => Number::read(text).is_ok_and(|n| n.value != NumberValue::Int(0)),
        _ => false,
    };
    attrs.iter().any(|attr| ["Inline", "Primitive"].contains(&attr.name.as_str()) && is_set(attr))
}

/// The name of the value of a variable: numbers are no names elsewhere.
fn name_of(var: &str) -> String {
    match var.starts_with(|c: char| c.is_ascii_digit()) {
        true => format!("v{var}"),
        false => var.to_string(),
    }
}
