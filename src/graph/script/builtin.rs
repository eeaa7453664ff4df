//! Leaf expressions, and the calls that TVM's pipeline leaves: builtins, memory, kernels that
//! update their operands or compute an integer.

use std::collections::HashMap;

use cranelift_entity::EntityRef;
use reflex_tir::Expr;
use reflex_tir::builder::FuncBuilder;
use ruff_python_ast::{self as ast, Expr as Py};
use ruff_text_size::Ranged;

use super::args::{Args, elements, string};
use super::context::{GlobalFunc, GlobalFuncKind};
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use super::types::{Annotation, ShapeAnnotation};
use crate::{FuncData, LeafExpr, Node, TensorType, Type, Value};

impl FuncParser<'_, '_> {
    /// `R.str("...")`, `R.dtype("...")`, `R.prim_value(...)`, `R.null_value()`.
    pub(super) fn leaf_expr(&mut self, name: &str, call: &ast::ExprCall) -> Result<Value> {
        if matches!(name, "null_value" | "reflex.machine") {
            Args::bind(self.source, call, &[])?;
            let leaf = if name == "null_value" { LeafExpr::Null } else { LeafExpr::VmState };
            return Ok(self.leaf(leaf, Type::Object));
        }
        let args = Args::bind(self.source, call, &["value"])?;
        let value = args.need("value")?;
        match name {
            "str" => {
                let text = string(self.source, value)?.to_string();
                Ok(self.leaf(LeafExpr::Str(text), Type::Object))
            }
            "dtype" => {
                let dtype = super::args::dtype(self.source, value)?;
                Ok(self.leaf(LeafExpr::DType(dtype), Type::Object))
            }
            _ if self.is_value(value) || matches!(value, Py::NumberLiteral(_)) => self.value(value),
            _ => {
                let value = self.dim_of(value)?;
                Ok(self.integer(value))
            }
        }
    }

    /// Calls of builtins by their Relax names.
    pub(super) fn builtin(&mut self, name: &str, call: &ast::ExprCall) -> Result<ParsedValue> {
        let list = &*call.arguments.args;
        let (builtin, list, takes_vm) = match (name, list) {
            // A register is cleared after its last use anyway.
            ("vm.kill_object", [one]) => {
                self.value(one)?;
                return Ok(ParsedValue::Values(vec![]));
            }
            ("vm.alloc_storage", list) => ("vm.builtin.alloc_storage", list, true),
            // The last argument is the device, which is the storage's.
            ("vm.alloc_tensor", [list @ .., _]) if list.len() == 4 => {
                ("vm.builtin.alloc_tensor", list, false)
            }
            ("vm.call_tir_dyn", [callee, args]) => {
                let list = elements(args).unwrap_or(std::slice::from_ref(args));
                let Some((name, GlobalFunc { kind: GlobalFuncKind::Kernel, .. })) =
                    self.global_func(callee)
                else {
                    return Err(self.source.expected("a kernel of this module", callee));
                };
                let (args, ints) = self.mixed(list)?;
                self.b.bind_values(Node::CallPacked { name, args, ints }, vec![]);
                return Ok(ParsedValue::Values(vec![]));
            }
            ("call_builtin_with_ctx", [name, args]) => {
                let list = elements(args).unwrap_or(std::slice::from_ref(args));
                (string(self.source, name)?, list, true)
            }
            _ => return Err(self.source.unsupported(call)),
        };
        let (mut args, ints) = self.mixed(list)?;
        if takes_vm {
            args.insert(0, self.leaf(LeafExpr::VmState, Type::Object));
        }
        let node = Node::CallPacked { name: builtin.to_string(), args, ints };
        Ok(ParsedValue::Value(self.b.bind_values(node, vec![Type::Object])[0]))
    }

    /// `R.call_tir_inplace`: the kernel works on its operands, which are its results; a result
    /// that is not an operand comes after them.
    pub(super) fn call_in_place(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let names = &["gvar", "args", "out_ty", "inplace_indices"];
        let args = Args::bind(self.source, call, names)?;
        let callee = args.need("gvar")?;
        let Some((name, GlobalFunc { kind: GlobalFuncKind::Kernel, .. })) =
            self.global_func(callee)
        else {
            return Err(self.source.expected("a kernel of this module", callee));
        };
        let operands = args.need("args")?;
        let list = elements(operands).unwrap_or(std::slice::from_ref(operands));
        let (values, ints) = self.mixed(list)?;
        args.need("inplace_indices")?;
        let indices = args.ints("inplace_indices")?.unwrap_or_default();
        // Values are shared (equal ones are one value, views of one lie in the same memory), so the
        // kernel works on fresh copies.
        let out = args.need("out_ty")?;
        let types = elements(out).unwrap_or(std::slice::from_ref(out));
        let operands = values.len();
        let mut values = values;
        let mut results = vec![];
        for (n, index) in indices.into_iter().enumerate() {
            if index == -1 && ints.is_empty() {
                let Some(Type::Tensor(ty)) =
                    types.get(n).map(|e| self.dims.ty(e, "d")).transpose()?
                else {
                    return Err(self.source.expected("the types of the results", out));
                };
                self.sync_dims();
                let own = self.fresh_tensor(None, ty);
                values.push(own);
                results.push(own);
                continue;
            }
            let position = usize::try_from(index).ok().filter(|position| *position < operands);
            let Some(value) = position.and_then(|position| values.get_mut(position)) else {
                return Err(self.source.unsupported(call));
            };
            let ty = self.tensor(callee, *value)?;
            *value = self.fresh_tensor(Some(*value), ty);
            results.push(*value);
        }
        self.b.bind_values(Node::CallPacked { name, args: values, ints }, vec![]);
        Ok(match results.as_slice() {
            [one] => ParsedValue::Value(*one),
            _ => ParsedValue::Values(results),
        })
    }

    /// `R.call_dps_packed`: a packed function fills fresh tensors, its last arguments.
    pub(super) fn call_dps_packed(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let args = Args::bind(self.source, call, &["func", "args", "out_ty", "out_sinfo"])?;
        let name = string(self.source, args.need("func")?)?.to_string();
        let operands = args.need("args")?;
        let list = elements(operands).unwrap_or(std::slice::from_ref(operands));
        let (mut values, ints) = self.mixed(list)?;
        // Integers after the last tensor are values too, since results follow them.
        values.extend(ints.into_iter().map(|value| self.integer(value)));
        let out = args.get("out_ty").or(args.get("out_sinfo"));
        let out = out.ok_or_else(|| self.source.refuse(call.start(), "`out_ty` is missing"))?;
        let several = elements(out);
        let mut results = vec![];
        for e in several.unwrap_or(std::slice::from_ref(out)) {
            let declared = self.dims.annotation(e)?;
            let Annotation::Tensor { dtype: Some(dtype), dims: ShapeAnnotation::Dims(shape) } =
                declared
            else {
                return Err(self.source.expected("the type of a tensor of known shape", e));
            };
            self.sync_dims();
            results.push(self.fresh_tensor(None, TensorType::new(dtype, shape)));
        }
        values.extend(&results);
        self.b.bind_values(Node::CallPacked { name, args: values, ints: vec![] }, vec![]);
        Ok(match several {
            Some(_) => ParsedValue::Values(results),
            None => ParsedValue::Value(results[0]),
        })
    }

    /// A freshly allocated tensor with the elements of another, or with zeros.
    pub(super) fn fresh_tensor(&mut self, elements: Option<Value>, ty: TensorType) -> Value {
        let module = self.b.module_mut();
        let name = format!("reflex_own{}", module.funcs.len());
        let mut kernel = FuncBuilder::new(&name);
        let extents = ty.shape.iter().enumerate();
        let shape: Vec<Expr> = extents
            .map(|(n, extent)| match extent.as_int() {
                Some(_) => extent.clone(),
                None => kernel.symbol(&format!("n{n}")),
            })
            .collect();
        let x = elements.map(|_| kernel.input("x", ty.dtype, shape.clone()));
        kernel.output("own", "y", ty.dtype, shape, |f, i| match x {
            Some(x) => f.at(x, i),
            None => Expr::constant(0.0, ty.dtype),
        });
        let func = module.funcs.push(FuncData::Prim(kernel.finish()));
        let args = elements.into_iter().collect();
        let node = Node::CallTir { func, args, scalars: vec![] };
        self.b.bind_values(node, vec![Type::Tensor(ty)])[0]
    }

    /// A kernel that only computes an integer from integers.
    pub(super) fn call_scalar_kernel(
        &mut self,
        call: &ast::ExprCall,
        name: &str,
        params: &[String],
        value: &Py,
    ) -> Result<ParsedValue> {
        if params.len() != call.arguments.args.len() {
            let (wanted, given) = (params.len(), call.arguments.args.len());
            let message = format!("`{name}` takes {wanted} arguments, not {given}");
            return Err(self.source.refuse(call.start(), message));
        }
        let mut own = HashMap::new();
        let mut given = HashMap::new();
        for (n, (param, e)) in params.iter().zip(&*call.arguments.args).enumerate() {
            let dim = match self.is_value(e) {
                false => self.dim_of(e)?,
                true => {
                    let value = self.value(e)?;
                    let dim = self.dims.fresh(param);
                    self.sync_dims();
                    let ty = self.b.ty(value).clone();
                    let node = Node::MatchShape { value, dims: vec![dim.clone()] };
                    self.b.bind_values(node, vec![ty]);
                    dim
                }
            };
            own.insert(param.clone(), reflex_tir::Var::new(n));
            given.insert(reflex_tir::Var::new(n), dim);
        }
        let value = self.dims.expr_over(value, &own)?;
        let value = crate::dims::simplify(&value.substitute(&|var| given.get(&var).cloned()));
        Ok(ParsedValue::Value(self.integer(value)))
    }

    /// The elements of an int64 tensor as dimensions, read at run time.
    pub(super) fn elements_of(&mut self, at: &Py, tensor: Value) -> Result<Vec<Expr>> {
        let ty = self.tensor(at, tensor)?;
        let rank = match ty.const_shape().as_deref() {
            Some([rank @ 0..=64]) => *rank,
            _ => return Err(self.source.refuse(at.start(), "the rank of this shape is not known")),
        };
        let dims: Vec<Expr> = (0..rank).map(|_| self.dims.fresh("d")).collect();
        self.sync_dims();
        let node = Node::MatchShape { value: tensor, dims: dims.clone() };
        self.b.bind_values(node, vec![Type::Tensor(ty)]);
        Ok(dims)
    }
}
