//! Calls: of the module's functions, of packed functions, and of what shapes values.

use std::collections::HashMap;

use reflex_tir::{Expr, Var};
use ruff_python_ast::{self as ast, Expr as Py};
use ruff_text_size::Ranged;

use super::args::{Args, elements, string};
use super::context::{GlobalFunc, GlobalFuncKind};
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use super::types::{Annotation, ShapeAnnotation};
use crate::{Func, FuncData, Node, TensorType, Type, Value, dims};

impl<'s> FuncParser<'s, '_> {
    /// An expression whose type may be needed because nothing infers it.
    pub(super) fn annotated_expr(
        &mut self,
        e: &Py,
        declared: Option<&Annotation>,
    ) -> Result<ParsedValue> {
        if let Py::Call(call) = e
            && let Some((name, member)) = self.global_func(&call.func)
        {
            return self.call_global(call, &name, member, declared);
        }
        if let Py::Call(call) = e
            && let Py::Name(callee) = &*call.func
            && let Some(ParsedValue::Value(callee)) = self.lookup(callee.id.as_str())
        {
            return self.call_value(call, callee, declared);
        }
        self.expr(e)
    }

    pub(super) fn call(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        if let Some((name, member)) = self.global_func(&call.func) {
            return self.call_global(call, &name, member, None);
        }
        if matches!(&*call.func, Py::Name(_)) {
            return self.annotated_expr(&Py::Call(call.clone()), None);
        }
        let path = reflex_tir::script::path(&call.func);
        let Some(name) = path.as_deref().and_then(|p| p.strip_prefix("R.")) else {
            return Err(self.source.unsupported(call));
        };
        match name {
            "const" => self.constant(call).map(ParsedValue::Value),
            // The gradient's kernel is for TVM's pass, which is not there.
            "call_tir" | "call_tir_with_grad" => self.call_tir(call),
            "call_tir_inplace" => self.call_in_place(call),
            "str" | "dtype" | "null_value" | "prim_value" | "reflex.machine" => {
                self.leaf_expr(name, call).map(ParsedValue::Value)
            }
            "call_builtin_with_ctx"
            | "vm.alloc_storage"
            | "vm.alloc_tensor"
            | "vm.kill_object"
            | "vm.call_tir_dyn" => self.builtin(name, call),
            "call_packed" | "call_pure_packed" => self.call_packed(call, &[]),
            // The function updates operands, and returns them.
            "call_inplace_packed" => self.call_packed(call, &["inplace_indices"]),
            "assert_op" | "print" => self.said(name, call),
            "make_closure" => self.make_closure(call),
            "invoke_closure" | "invoke_pure_closure" => self.invoke_closure(call),
            "builtin.alloc_tensor"
            | "memory.alloc_storage"
            | "memory.alloc_tensor"
            | "memory.kill_storage"
            | "memory.kill_tensor"
            | "memory.view"
            | "hint_on_device"
            | "to_vdevice"
            | "wrap_param" => self.memory(name, call),
            "call_dps_packed" => self.call_dps_packed(call),
            "match_cast" => self.match_cast(call),
            "tuple" => {
                let items = call.arguments.args.iter().map(|e| self.value(e));
                Ok(ParsedValue::Values(items.collect::<Result<_>>()?))
            }
            "shape" => Ok(ParsedValue::Shape(self.dims_of(&Py::Call(call.clone()))?)),
            "shape_of" | "tensor_to_shape" => {
                let args = Args::bind(self.source, call, &["x"])?;
                let x = self.value(args.need("x")?)?;
                if let (Type::AnyTensor { .. }, "shape_of") = (self.b.ty(x), name) {
                    let name = "vm.builtin.shape_of".to_string();
                    let node = Node::CallPacked { name, args: vec![x], ints: vec![] };
                    return Ok(ParsedValue::Value(
                        self.b.bind_values(node, vec![Type::AnyShape])[0],
                    ));
                }
                let ty = self.tensor(call, x)?;
                Ok(if name == "shape_of" {
                    ParsedValue::Shape(ty.shape)
                } else {
                    ParsedValue::ShapeOf(x)
                })
            }
            _ => match name.strip_prefix("inspect.") {
                Some(field) => self.inspected(field, call),
                None => self.operator(name, call),
            },
        }
    }

    /// `cls.name` or `Module.name`, when it is a function of the module.
    pub(super) fn global_func(&self, e: &Py) -> Option<(String, &'s GlobalFunc)> {
        let Py::Attribute(a) = e else { return None };
        let Py::Name(class) = &*a.value else { return None };
        let class = class.id.as_str();
        let is_class = match self.lookup(class) {
            Some(item) => matches!(item, ParsedValue::Class),
            None => class == self.cx.class,
        };
        let name = a.attr.as_str();
        is_class.then(|| self.cx.globals.get(name)).flatten().map(|m| (name.to_string(), m))
    }

    fn call_global(
        &mut self,
        call: &ast::ExprCall,
        name: &str,
        member: &'s GlobalFunc,
        declared: Option<&Annotation>,
    ) -> Result<ParsedValue> {
        if let Some(keyword) = call.arguments.keywords.first() {
            return Err(self.source.unsupported(keyword));
        }
        if let GlobalFuncKind::Scalar { params, value } = &member.kind {
            return self.call_scalar_kernel(call, name, params, value);
        }
        if let GlobalFuncKind::Packed { params, name, args } = &member.kind {
            return self.call_packed_kernel(call, *params, name, args);
        }
        let GlobalFuncKind::Graph { params, result } = &member.kind else {
            let (args, ints) = self.mixed(&call.arguments.args)?;
            let node = Node::CallPacked { name: name.to_string(), args, ints };
            self.b.bind_values(node, vec![]);
            return Ok(ParsedValue::Values(vec![]));
        };
        let args: Vec<Value> =
            call.arguments.args.iter().map(|e| self.value(e)).collect::<Result<_>>()?;
        if args.len() != params.len() {
            let message = format!("`{name}` takes {} arguments, not {}", params.len(), args.len());
            return Err(self.source.refuse(call.start(), message));
        }
        if self.vm_lowered {
            let node = Node::CallFunc { func: member.id, args };
            return Ok(ParsedValue::Value(self.b.bind_values(node, vec![Type::Object])[0]));
        }
        let types = match (result, declared) {
            (Some(Annotation::Tuple(items)), Some(Annotation::Tuple(own)))
                if items.len() == own.len() =>
            {
                self.complete_all(own, call)?
            }
            (Some(one), Some(own)) if !matches!(one, Annotation::Tuple(_)) => {
                vec![self.dims.complete(own.clone(), "d", call)?]
            }
            _ => self.result_types(call, name, member, params, &args)?,
        };
        self.sync_dims();
        let single = !matches!(result, Some(Annotation::Tuple(_))) && types.len() == 1;
        let outputs = self.b.bind_values(Node::CallFunc { func: member.id, args }, types);
        Ok(if single { ParsedValue::Value(outputs[0]) } else { ParsedValue::Values(outputs) })
    }

    pub(super) fn complete_all(
        &mut self,
        items: &[Annotation],
        at: &impl Ranged,
    ) -> Result<Vec<Type>> {
        items.iter().map(|w| self.dims.complete(w.clone(), "d", at)).collect()
    }

    /// Result types of a call from the callee's own, over the caller's dimensions.
    fn result_types(
        &mut self,
        call: &ast::ExprCall,
        name: &str,
        member: &GlobalFunc,
        params: &[Type],
        args: &[Value],
    ) -> Result<Vec<Type>> {
        let GlobalFuncKind::Graph { result, .. } = &member.kind else { return Ok(vec![]) };
        let mut known = HashMap::new();
        for (param, arg) in params.iter().zip(args) {
            if let (Type::Tensor(param), Some(arg)) = (param, self.b.ty(*arg).as_tensor()) {
                for (dim, value) in param.shape.iter().zip(&arg.shape) {
                    if let Some(var) = dim.as_var() {
                        known.entry(var).or_insert_with(|| value.clone());
                    }
                }
            }
        }
        let built = match (result, self.b.module().funcs.get(member.id)) {
            (Some(Annotation::Tuple(items)), _) => {
                let items: Vec<Annotation> =
                    items.iter().map(|w| self.translate_annotation(w, &known)).collect();
                return self.complete_all(&items, call);
            }
            (Some(one), _) => {
                let one = self.translate_annotation(one, &known);
                return Ok(vec![self.dims.complete(one, "d", call)?]);
            }
            (None, Some(FuncData::Graph(func))) => results_of(func),
            (None, _) => {
                let message = format!("the result of `{name}` has no type: annotate the function");
                return Err(self.source.refuse(call.start(), message));
            }
        };
        Ok(built.iter().map(|ty| self.translate(ty, &known)).collect())
    }

    fn translate_annotation(&mut self, w: &Annotation, known: &HashMap<Var, Expr>) -> Annotation {
        let mut dims = |dims: &ShapeAnnotation| match dims {
            ShapeAnnotation::Dims(list) => {
                ShapeAnnotation::Dims(list.iter().map(|e| self.translate_dim(e, known)).collect())
            }
            ShapeAnnotation::Rank(_) | ShapeAnnotation::Unknown => dims.clone(),
        };
        match w {
            Annotation::Tensor { dtype, dims: own } => {
                Annotation::Tensor { dtype: *dtype, dims: dims(own) }
            }
            Annotation::Shape(own) => Annotation::Shape(dims(own)),
            Annotation::Tuple(items) => Annotation::Tuple(
                items.iter().map(|w| self.translate_annotation(w, known)).collect(),
            ),
            Annotation::Prim(_) | Annotation::Func | Annotation::Any => w.clone(),
        }
    }

    /// A callee's type in the caller's dimensions; what the call does not determine is new.
    pub(super) fn translate(&mut self, ty: &Type, known: &HashMap<Var, Expr>) -> Type {
        match ty {
            Type::Tensor(t) => {
                let shape = t.shape.iter().map(|e| self.translate_dim(e, known)).collect();
                Type::Tensor(TensorType::new(t.dtype, shape))
            }
            Type::Shape(dims) => {
                Type::Shape(dims.iter().map(|e| self.translate_dim(e, known)).collect())
            }
            Type::Tuple(types) => {
                Type::Tuple(types.iter().map(|t| self.translate(t, known)).collect())
            }
            Type::AnyTensor { .. } | Type::AnyShape | Type::Prim(_) | Type::Func | Type::Object => {
                ty.clone()
            }
        }
    }

    pub(super) fn translate_dim(&mut self, e: &Expr, known: &HashMap<Var, Expr>) -> Expr {
        let mut determined = true;
        e.visit(&mut |e| determined &= e.as_var().is_none_or(|var| known.contains_key(&var)));
        match determined {
            true => dims::simplify(&e.substitute(&|var| known.get(&var).cloned())),
            false => self.dims.fresh("d"),
        }
    }

    /// Values, then the integers that no value follows.
    pub(super) fn mixed(&mut self, list: &[Py]) -> Result<(Vec<Value>, Vec<Expr>)> {
        let last = list.iter().rposition(|e| self.is_value(e)).map_or(0, |at| at + 1);
        let (mut values, mut ints) = (vec![], vec![]);
        for (at, e) in list.iter().enumerate() {
            match (self.is_value(e), at < last) {
                (true, _) => values.push(self.value(e)?),
                (false, true) => {
                    let value = self.dim_of(e)?;
                    values.push(self.integer(value));
                }
                (false, false) => ints.push(self.dims.expr(e)?),
            }
        }
        self.sync_dims();
        Ok((values, ints))
    }

    /// Whether an expression is a value rather than an integer over dimensions.
    pub(super) fn is_value(&self, e: &Py) -> bool {
        match e {
            // An integer parameter is a dimension where one may stand.
            Py::Name(name) => match self.lookup(name.id.as_str()) {
                Some(ParsedValue::Value(value)) => {
                    !matches!(self.b.ty(value), Type::Prim(_))
                        || self.dims.known(name.id.as_str()).is_none()
                }
                found => found.is_some(),
            },
            Py::Call(call) => {
                !reflex_tir::script::path(&call.func).is_some_and(|p| p.starts_with("T."))
            }
            Py::NumberLiteral(_) => false,
            Py::BinOp(b) => self.is_value(&b.left) || self.is_value(&b.right),
            Py::UnaryOp(u) => self.is_value(&u.operand),
            _ => true,
        }
    }

    fn call_tir(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let names = &["gvar", "args", "out_ty", "out_sinfo", "te_grad_name", "te_grad_kwargs"];
        let args = Args::bind(self.source, call, names)?;
        let callee = args.need("gvar")?;
        let Some((_, GlobalFunc { id, kind: GlobalFuncKind::Kernel })) = self.global_func(callee)
        else {
            return Err(self.source.expected("a kernel of this module", callee));
        };
        let operands = args.need("args")?;
        let list = elements(operands).unwrap_or(std::slice::from_ref(operands));
        let (mut values, mut scalars) = (vec![], vec![]);
        for e in list {
            match self.is_value(e) {
                true => values.push(self.value(e)?),
                false => scalars.push(self.dims.expr(e)?),
            }
        }
        let out = args.get("out_ty").or(args.get("out_sinfo"));
        let out = out.ok_or_else(|| self.source.refuse(call.start(), "`out_ty` is missing"))?;
        let several = elements(out);
        let mut types = vec![];
        for e in several.unwrap_or(std::slice::from_ref(out)) {
            types.push(self.dims.ty(e, "d")?);
        }
        self.sync_dims();
        let node = Node::CallTir { func: *id, args: values, scalars };
        let outputs = self.b.bind_values(node, types);
        Ok(if several.is_some() {
            ParsedValue::Values(outputs)
        } else {
            ParsedValue::Value(outputs[0])
        })
    }

    /// A call of a packed function; keywords in `others` say what the function does by itself.
    fn call_packed(&mut self, call: &ast::ExprCall, others: &[&str]) -> Result<ParsedValue> {
        let Some((callee, list)) = call.arguments.args.split_first() else {
            return Err(self.source.unsupported(call));
        };
        let name = string(self.source, callee)?.to_string();
        let (args, ints) = self.mixed(list)?;
        let out = self.result_annotation(call, others)?;
        let (types, several) = match &out {
            Annotation::Tuple(items) => (self.complete_all(items, call)?, true),
            _ => (vec![self.dims.complete(out, "d", call)?], false),
        };
        self.sync_dims();
        let outputs = self.b.bind_values(Node::CallPacked { name, args, ints }, types);
        Ok(if several { ParsedValue::Values(outputs) } else { ParsedValue::Value(outputs[0]) })
    }

    /// The type that `ty_args` of a call says; keywords in `others` are left out.
    pub(super) fn result_annotation(
        &mut self,
        call: &ast::ExprCall,
        others: &[&str],
    ) -> Result<Annotation> {
        let mut out = Annotation::Any;
        let keywords = if self.vm_lowered { &[][..] } else { &call.arguments.keywords[..] };
        for keyword in keywords {
            match (keyword.arg.as_ref().map(|n| n.as_str()), elements(&keyword.value)) {
                (Some("ty_args" | "sinfo_args"), Some([one])) => out = self.dims.annotation(one)?,
                (Some("ty_args" | "sinfo_args"), None) => {
                    out = self.dims.annotation(&keyword.value)?;
                }
                (Some(name), _) if others.contains(&name) => {}
                _ => return Err(self.source.unsupported(keyword)),
            }
        }
        Ok(out)
    }

    fn match_cast(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let args = Args::bind(self.source, call, &["value", "ty"])?;
        let (value, ty) = (args.need("value")?, args.need("ty")?);
        let item = self.expr(value)?;
        let declared = self.dims.annotation(ty)?;
        match (item, declared) {
            (ParsedValue::Value(value), declared) => {
                let hint = self.b.name(value).to_string();
                let ty = self.dims.complete(declared, &hint, ty)?;
                self.sync_dims();
                Ok(ParsedValue::Value(self.b.bind_values(Node::MatchCast(value), vec![ty])[0]))
            }
            (ParsedValue::ShapeOf(value), Annotation::Shape(ShapeAnnotation::Dims(dims))) => {
                self.sync_dims();
                let ty = self.b.ty(value).clone();
                let node = Node::MatchShape { value, dims: dims.clone() };
                self.b.bind_values(node, vec![ty]);
                Ok(ParsedValue::Shape(dims))
            }
            (ParsedValue::Shape(found), Annotation::Shape(ShapeAnnotation::Dims(dims)))
                if found.len() == dims.len()
                    && found.iter().zip(&dims).all(|(a, b)| dims::equal(a, b) == Some(true)) =>
            {
                Ok(ParsedValue::Shape(found))
            }
            _ => Err(self.source.unsupported(call)),
        }
    }

    /// A shape argument: a list, `R.shape`, or a name for one.
    pub(super) fn dims_of(&mut self, e: &Py) -> Result<Vec<Expr>> {
        if let Py::Name(name) = e {
            match self.lookup(name.id.as_str()) {
                Some(ParsedValue::Shape(dims)) => return Ok(dims),
                Some(ParsedValue::ShapeOf(tensor)) => return self.elements_of(e, tensor),
                Some(ParsedValue::Value(value)) => {
                    if let Type::Shape(dims) = self.b.ty(value) {
                        return Ok(dims.clone());
                    }
                }
                _ => {}
            }
        }
        if let Py::Call(call) = e
            && reflex_tir::script::path(&call.func).as_deref() == Some("R.shape_of")
            && let ParsedValue::Shape(dims) = self.call(call)?
        {
            return Ok(dims);
        }
        let dims = self.dims.list(e);
        self.sync_dims();
        dims
    }

    /// One dimension as an argument.
    pub(super) fn dim_of(&mut self, e: &Py) -> Result<Expr> {
        let dim = self.dims.expr(e);
        self.sync_dims();
        dim
    }
}

fn results_of(func: &Func) -> Vec<Type> {
    func.body.results.iter().map(|v| func.values[*v].ty.clone()).collect()
}
