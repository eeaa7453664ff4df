//! A call of a registered operator: the types that inference and implementation see, and what the call keeps
//! of both.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cranelift_entity::PrimaryMap;
use reflex_tir::{Expr, PrimFunc, Var, VarData};

use super::definition::{AttrDef, Implementation, OpDef};
use super::kernel;
use crate::dim_text::DimPrinter;
use crate::registered_op::{AttrKind, AttrValue, FusionKind, RegisteredCode, RegisteredOp};
use crate::{TensorType, dims};

/// Most results of an operator.
const MAX_RESULTS: usize = 64;

/// The operands and attributes of a call.
#[derive(Clone, Copy, Debug)]
pub struct CallTypes<'a> {
    /// Name of the operator.
    pub op: &'a str,
    /// Types of the operands.
    pub args: &'a [TensorType],
    /// Every attribute that the operator declares, in that order.
    pub attrs: &'a [(String, AttrValue)],
    /// The symbolic dimensions that the types are written over.
    pub dims: &'a PrimaryMap<Var, VarData>,
}

impl CallTypes<'_> {
    /// The value of an attribute.
    pub fn attr(&self, name: &str) -> Option<&AttrValue> {
        self.attrs.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The names of the symbolic dimensions, each its own.
    fn names(&self) -> Vec<(Var, String)> {
        let mut taken = HashSet::new();
        let named = self.dims.iter().map(|(var, data)| {
            let hint = reflex_tir::script::identifier(&data.name);
            let mut name = hint.clone();
            let mut number = 1;
            while !taken.insert(name.clone()) {
                name = format!("{hint}_{number}");
                number += 1;
            }
            (var, name)
        });
        named.collect()
    }

    /// A dimension as a Python expression over the names of symbolic ones.
    pub fn dim_text(&self, dim: &Expr) -> String {
        let names: HashMap<Var, String> = self.names().into_iter().collect();
        let name = |var: Var| names.get(&var).cloned().unwrap_or_else(|| var.to_string());
        DimPrinter(&name).text(dim)
    }

    /// Reads what [`CallTypes::dim_text`] writes.
    pub fn parse_dim(&self, text: &str) -> Result<Expr, String> {
        let wrong = |why: String| format!("the dimension {text:?}: {why}");
        reflex_tir::script::check_nesting(text).map_err(|e| wrong(e.message))?;
        let parsed =
            ruff_python_parser::parse_expression(text).map_err(|e| wrong(e.to_string()))?;
        let names = self.names().into_iter().map(|(var, name)| (name, var)).collect();
        reflex_tir::script::parse_dim(parsed.expr(), text, &names).map_err(|e| wrong(e.message))
    }
}

impl RegisteredOp {
    /// A kernel of a module as an operator of a kind, for operands and results of these types; refused where
    /// it takes others.
    pub fn of_kernel(
        func: &PrimFunc,
        kind: FusionKind,
        args: &[TensorType],
        results: &[TensorType],
        dims: &PrimaryMap<Var, VarData>,
    ) -> Result<RegisteredOp, String> {
        let call = CallTypes { op: &func.name, args, attrs: &[], dims };
        kernel::check(func, &call, results, kind)?;
        Ok(RegisteredOp {
            name: func.name.clone(),
            kind,
            attrs: vec![],
            operands: args.iter().map(|ty| (ty.dtype, ty.shape.len())).collect(),
            results: results.iter().map(|ty| (ty.dtype, ty.shape.clone())).collect(),
            code: RegisteredCode::Kernel(Arc::new(func.clone())),
        })
    }
}

impl OpDef {
    /// A call of the operator: runs inference and implementation, and checks what they give.
    pub fn call(
        &self,
        args: &[TensorType],
        given: Vec<(String, AttrValue)>,
        dims: &PrimaryMap<Var, VarData>,
    ) -> Result<RegisteredOp, String> {
        let attrs = self.attributes(given).map_err(|why| self.error(why))?;
        let (fewest, most) = self.operands;
        if !(fewest..=most).contains(&args.len()) {
            let range =
                if fewest == most { fewest.to_string() } else { format!("{fewest} to {most}") };
            return Err(self.error(format!("it takes {range} operands, not {}", args.len())));
        }
        let call = CallTypes { op: &self.name, args, attrs: &attrs, dims };
        let infer = self.infer.as_ref().ok_or_else(|| self.error("it has no inference"))?;
        let results = infer(&call).map_err(|why| self.error(format!("inference: {why}")))?;
        let results =
            checked(&call, results).map_err(|why| self.error(format!("inference: {why}")))?;
        let code = match &self.implementation {
            None => return Err(self.error("it has no implementation")),
            Some(Implementation::Packed(function)) => RegisteredCode::Packed(function.clone()),
            Some(Implementation::Kernel(write)) => {
                let wrong = |why: String| self.error(format!("its kernel: {why}"));
                let func = write(&call, &results).map_err(wrong)?;
                kernel::check(&func, &call, &results, self.kind).map_err(wrong)?;
                RegisteredCode::Kernel(Arc::new(func))
            }
        };
        let operands = args.iter().map(|ty| (ty.dtype, ty.shape.len())).collect();
        let (name, kind) = (self.name.clone(), self.kind);
        let results = results.into_iter().map(|ty| (ty.dtype, ty.shape)).collect();
        Ok(RegisteredOp { name, kind, attrs, operands, results, code })
    }

    /// All attributes of a call, with defaults where it gives none.
    fn attributes(
        &self,
        given: Vec<(String, AttrValue)>,
    ) -> Result<Vec<(String, AttrValue)>, String> {
        let mut values: HashMap<String, AttrValue> = HashMap::new();
        for (name, value) in given {
            if !self.attrs.iter().any(|attr| attr.name == name) {
                let known: Vec<&str> = self.attrs.iter().map(|attr| attr.name.as_str()).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(format!("no attribute {name:?}; it has {known}"));
            }
            values.insert(name, value);
        }
        let value = |attr: &AttrDef| {
            let value = match values.remove(&attr.name) {
                Some(value) => value
                    .of_kind(attr.kind)
                    .ok_or_else(|| format!("the attribute {:?} is no {}", attr.name, attr.kind))?,
                None => attr
                    .default
                    .clone()
                    .ok_or_else(|| format!("the attribute {:?} is missing", attr.name))?,
            };
            Ok((attr.name.clone(), value))
        };
        self.attrs.iter().map(value).collect()
    }

    /// The kind of an attribute.
    pub fn attr_kind(&self, name: &str) -> Option<AttrKind> {
        self.attrs.iter().find(|attr| attr.name == name).map(|attr| attr.kind)
    }
}

/// Types of results that an operator can have.
fn checked(call: &CallTypes<'_>, results: Vec<TensorType>) -> Result<Vec<TensorType>, String> {
    if results.is_empty() || results.len() > MAX_RESULTS {
        return Err(format!("it gives {} types", results.len()));
    }
    let mut known = HashSet::new();
    let dims = |ty: &TensorType, f: &mut dyn FnMut(Var)| {
        for dim in &ty.shape {
            dim.visit(&mut |e| e.as_var().into_iter().for_each(&mut *f));
        }
    };
    call.args.iter().for_each(|ty| dims(ty, &mut |var| _ = known.insert(var)));
    let check = |ty: TensorType| {
        let mut unknown = None;
        dims(&ty, &mut |var| {
            if !known.contains(&var) {
                unknown = Some(var);
            }
        });
        if let Some(var) = unknown {
            let name = call.dim_text(&Expr::var(var));
            return Err(format!("the dimension {name} is none of the operands'"));
        }
        if !ty.dtype.is_scalar() {
            return Err(format!("{} is no type of elements", ty.dtype));
        }
        let shape: Vec<Expr> = ty.shape.iter().map(dims::simplify).collect();
        match shape.iter().find_map(|dim| dim.as_int().filter(|size| *size < 0)) {
            Some(size) => Err(format!("an extent would be {size}")),
            None => Ok(TensorType::new(ty.dtype, shape)),
        }
    };
    results.into_iter().map(check).collect()
}
