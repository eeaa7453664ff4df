//! Expressions.

use std::sync::Arc;

use reflex_tir::{DType, Expr as DimExpr};

use super::closure::Expected;
use super::func::{FuncLowerer, Item, Lifted, Term};
use super::ops::attrs::OpCall;
use super::types::Ty;
use crate::relay::ast::{Attr, Block, Expr, ExprKind, MetaRef};
use crate::relay::number::{Number, NumberValue};
use crate::relay::source::{Offset, Result};
use crate::script::consts;
use crate::{Body, DataOp, Literal, Node, TensorType, Type, Value};

/// An argument of a call. Function literals wait until the other arguments have told their types.
enum Arg {
    Ready(Term),
    Waiting,
}

impl<'c> FuncLowerer<'c, '_, '_> {
    /// The value of an expression.
    pub(super) fn expr(&mut self, e: &'c Expr) -> Result<Term> {
        Ok(match self.item_of(e, None)? {
            Item::Term(term) => term,
            Item::Function(f) => self.closure(&f),
        })
    }

    /// The meaning of an expression. `name` names a function that is written here.
    pub(super) fn item_of(&mut self, e: &'c Expr, name: Option<&str>) -> Result<Item> {
        let at = e.at;
        let term = match &e.kind {
            ExprKind::Var(name) => return self.variable(at, name),
            ExprKind::Function(f) => return self.lift(f, name, None).map(Item::Function),
            ExprKind::Global(name) => return self.global_item(at, name).map(Item::Function),
            ExprKind::Name(name) => return self.named(at, name),
            ExprKind::Block(block) => self.block(block)?,
            ExprKind::Number(text) => {
                let number = Number::read(text).map_err(|message| self.refuse(at, message))?;
                self.number(at, number)?
            }
            ExprKind::Bool(value) => {
                let bytes = Arc::new(vec![u8::from(*value)]);
                let literal = Literal::new(DType::BOOL, vec![], bytes);
                self.constant(literal.expect("one element"))
            }
            ExprKind::Meta(entry) => self.meta(at, entry)?,
            ExprKind::Tuple(items) => {
                let terms = items.iter().map(|e| self.expr(e)).collect::<Result<Vec<_>>>()?;
                let ty = Ty::Tuple(terms.iter().map(|t| t.ty.clone()).collect());
                self.check_size(at, &ty)?;
                let value = self.tuple(terms.iter().map(|t| t.value).collect());
                Term { value, ty }
            }
            ExprKind::Project(tuple, index) => {
                let tuple = self.expr(tuple)?;
                match self.shallow(&tuple.ty) {
                    Ty::Tuple(types) if *index < types.len() => self.item(&tuple, *index, &types),
                    other => {
                        let found = self.cx.show(&other);
                        return Err(self.refuse(at, format!("item {index} of {found}")));
                    }
                }
            }
            ExprKind::Call { callee, args, attrs } => self.call(at, callee, args, attrs)?,
            ExprKind::If(cond, then, otherwise) => self.branch(at, cond, then, otherwise)?,
            ExprKind::Match { value, complete, arms } => {
                self.matching(at, value, *complete, arms)?
            }
        };
        Ok(Item::Term(term))
    }

    fn global_item(&mut self, at: Offset, name: &str) -> Result<Lifted> {
        let Some(global) = self.cx.global(name) else {
            return Err(self.refuse(at, format!("there is no function `@{name}`")));
        };
        Ok(Lifted { func: global.id, bound: vec![], args: global.args, result: global.result })
    }

    /// A constructor without its fields: a value, or a function of them.
    fn named(&mut self, at: Offset, name: &str) -> Result<Item> {
        match self.cx.constructor(name) {
            Some(found) if found.fields.is_empty() => self.construct(at, name, &[]).map(Item::Term),
            Some(found) => Ok(Item::Function(self.constructor_value(found))),
            None => {
                let text = format!(
                    "`{name}` is no constructor; an operator is a value only where a function is expected"
                );
                Err(self.refuse(at, text))
            }
        }
    }

    pub(super) fn constant(&mut self, literal: Literal) -> Term {
        let value = self.b.constant(literal);
        self.term(value)
    }

    fn number(&mut self, at: Offset, number: Number) -> Result<Term> {
        let value = match number.value {
            NumberValue::Int(value) => consts::Number::Int(i128::from(value)),
            NumberValue::Float(value) => consts::Number::Float(value),
        };
        self.filled(at, number.dtype, value)
    }

    /// A scalar constant.
    pub(super) fn filled(
        &mut self,
        at: Offset,
        dtype: DType,
        value: consts::Number,
    ) -> Result<Term> {
        let mut bytes = vec![];
        let literal = consts::push(dtype, value, &mut bytes)
            .then(|| Literal::new(dtype, vec![], Arc::new(bytes)))
            .flatten();
        match literal {
            Some(literal) => Ok(self.constant(literal)),
            None => Err(self.refuse(at, format!("a constant that {dtype} does not hold"))),
        }
    }

    fn meta(&mut self, at: Offset, entry: &MetaRef) -> Result<Term> {
        let index = usize::try_from(entry.index).ok();
        let found = index.and_then(|n| self.cx.constants.get(n));
        match found.filter(|_| entry.key == "relay.Constant") {
            Some(literal) => Ok(self.constant(literal.clone())),
            None => {
                let name = format!("meta[{}][{}]", entry.key, entry.index);
                let remedy = "print the module with `astext(show_meta_data=True)`";
                Err(self.refuse(at, format!("`{name}` is not in the metadata; {remedy}")))
            }
        }
    }

    // Calls.

    fn call(
        &mut self,
        at: Offset,
        callee: &'c Expr,
        args: &'c [Expr],
        attrs: &'c [Attr],
    ) -> Result<Term> {
        if let ExprKind::Name(name) = &callee.kind {
            if self.cx.constructor(name).is_some() {
                return self.construct(at, name, args);
            }
            let terms = args.iter().map(|e| self.expr(e)).collect::<Result<Vec<_>>>()?;
            return self.operator(OpCall::new(self.cx.source, at, name, terms, attrs));
        }
        if let Some(attr) = attrs.first() {
            return Err(self.refuse(attr.at, "only operators have attributes"));
        }
        match self.item_of(callee, None)? {
            Item::Function(f) => {
                let values = self.arguments(at, args, &f.args)?;
                let bound = f.bound.iter().map(|term| term.value);
                let values = values.into_iter().chain(bound).collect();
                // What a polymorphic function returns, it does not check.
                let declared = match &callee.kind {
                    ExprKind::Global(name) => self.cx.globals[name].result.clone(),
                    _ => f.result.clone(),
                };
                let value = self.call_func(f.func, values, &declared);
                Ok(Term { value, ty: f.result })
            }
            Item::Term(term) => {
                let (types, result) = match self.shallow(&term.ty) {
                    Ty::Function(types, result) => (types, *result),
                    _ => {
                        let mut types = self.cx.types.borrow_mut();
                        let types = (args.iter().map(|_| types.fresh()).collect(), types.fresh());
                        let (args, result): (Vec<Ty>, Ty) = types;
                        (args, result)
                    }
                };
                let want = Ty::Function(types.clone(), Box::new(result.clone()));
                self.unify(at, &want, &term.ty)?;
                let values = self.arguments(at, args, &types)?;
                let value = self.invoke(&term, values);
                Ok(Term { value, ty: result })
            }
        }
    }

    /// The values of arguments. Function literals come last, when their parameters are known.
    fn arguments(&mut self, at: Offset, args: &'c [Expr], types: &[Ty]) -> Result<Vec<Value>> {
        self.check_count(at, types.len(), args.len())?;
        let mut list = vec![];
        for (e, ty) in args.iter().zip(types) {
            list.push(match &e.kind {
                ExprKind::Function(_) => Arg::Waiting,
                ExprKind::Name(name) if self.cx.constructor(name).is_none() => Arg::Waiting,
                _ => {
                    let term = self.expr(e)?;
                    self.unify(e.at, ty, &term.ty)?;
                    Arg::Ready(term)
                }
            });
        }
        let mut values = vec![];
        for ((arg, e), ty) in list.into_iter().zip(args).zip(types) {
            values.push(match (arg, &e.kind) {
                (Arg::Ready(term), _) => term.value,
                (Arg::Waiting, ExprKind::Function(f)) => {
                    let expected: Expected = match self.shallow(ty) {
                        Ty::Function(args, result) => Some((args, *result)),
                        _ => None,
                    };
                    let lifted = self.lift(f, None, expected)?;
                    let term = self.closure(&lifted);
                    self.unify(e.at, ty, &term.ty)?;
                    term.value
                }
                (Arg::Waiting, ExprKind::Name(name)) => match self.shallow(ty) {
                    Ty::Function(args, result) => {
                        let lifted = self.operator_value(e.at, name, args)?;
                        self.unify(e.at, &result, &lifted.result)?;
                        self.closure(&lifted).value
                    }
                    _ => self.expr(e)?.value,
                },
                (Arg::Waiting, _) => self.expr(e)?.value,
            });
        }
        Ok(values)
    }

    fn construct(&mut self, at: Offset, name: &str, args: &'c [Expr]) -> Result<Term> {
        let Some(found) = self.cx.constructor(name) else {
            return Err(self.refuse(at, format!("there is no constructor `{name}`")));
        };
        let args = self.arguments(at, args, &found.fields)?;
        self.check_size(at, &found.result)?;
        let (op, constructor) = (DataOp::Construct, found.constructor);
        let node = Node::Data { op, constructor, args };
        let value = self.b.bind_values(node, vec![Type::Object])[0];
        Ok(Term { value, ty: found.result })
    }

    // Branches.

    fn branch(
        &mut self,
        at: Offset,
        cond: &'c Expr,
        then: &'c Block,
        otherwise: &'c Block,
    ) -> Result<Term> {
        let cond = self.expr(cond)?;
        self.unify(at, &Ty::Tensor(DType::BOOL, vec![]), &cond.ty)?;
        let cond = self.coerce(&cond, &Ty::Tensor(DType::BOOL, vec![]));
        let (then, a) = self.side(at, |this| this.block(then))?;
        let (otherwise, b) = self.side(at, |this| this.block(otherwise))?;
        self.join(at, cond, (then, a), (otherwise, b))
    }

    /// A body of its own, and its result.
    pub(super) fn side(
        &mut self,
        at: Offset,
        part: impl FnOnce(&mut Self) -> Result<Term>,
    ) -> Result<(Body, Term)> {
        let term = self.in_body(at, |this| {
            let term = part(this)?;
            let ty = this.shallow(&term.ty);
            let value = this.coerce(&term, &ty);
            Ok(Term { value, ty })
        })?;
        let body = self.b.close(vec![term.value]);
        Ok((body, term))
    }

    /// Runs one of two bodies.
    pub(super) fn join(
        &mut self,
        at: Offset,
        cond: Value,
        then: (Body, Term),
        otherwise: (Body, Term),
    ) -> Result<Term> {
        let (a, b) = (then.1, otherwise.1);
        let ty = self.join_types(at, &a.ty, &b.ty)?;
        let outer = self.join_values(a.value, b.value);
        let node = Node::If { cond, then: then.0, otherwise: otherwise.0 };
        let value = self.b.bind_values(node, vec![outer])[0];
        Ok(Term { value, ty })
    }

    fn join_types(&mut self, at: Offset, a: &Ty, b: &Ty) -> Result<Ty> {
        match (self.shallow(a), self.shallow(b)) {
            (Ty::Tensor(d, x), Ty::Tensor(e, y)) if d == e && x.len() == y.len() => {
                let same = |(x, y): (&Option<i64>, &Option<i64>)| x.filter(|_| x == y);
                Ok(Ty::Tensor(d, x.iter().zip(&y).map(same).collect()))
            }
            (a, b) => {
                self.unify(at, &a, &b)?;
                Ok(a)
            }
        }
    }

    /// The type of a value that comes from one of two bodies: dimensions that are not numbers
    /// are new ones.
    fn join_values(&mut self, a: Value, b: Value) -> Type {
        match (self.b.ty(a).clone(), self.b.ty(b).clone()) {
            (Type::Tensor(a), Type::Tensor(b))
                if a.dtype == b.dtype && a.shape.len() == b.shape.len() =>
            {
                let shape = a.shape.iter().zip(&b.shape).map(|(x, y)| match x.as_int() {
                    Some(extent) if x == y => DimExpr::i64(extent),
                    _ => DimExpr::var(self.b.sym("d")),
                });
                let shape = shape.collect();
                Type::Tensor(TensorType::new(a.dtype, shape))
            }
            (Type::Tuple(a), Type::Tuple(b)) if a.len() == b.len() => {
                Type::Tuple(vec![Type::Object; a.len()])
            }
            (Type::Func, Type::Func) => Type::Func,
            _ => Type::Object,
        }
    }
}
