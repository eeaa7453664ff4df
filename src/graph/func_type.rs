//! Types of functions: one for graph functions and kernels alike, so that a call of either is checked by the same rule.
//!
//! A kernel takes its results as parameters (destination-passing style). Its type is that of the call: what it reads
//! are parameters, what it fills are results, and its scalars are parameters of a primitive type. What a type leaves open
//! (`Any`, a tensor of unknown shape) fits everything, and is checked when the program runs.

use std::collections::HashMap;
use std::fmt;

use cranelift_entity::PrimaryMap;
use reflex_tir::{Expr, Param, Var, VarData};

use crate::dim_text::DimPrinter;
use crate::{FuncData, TensorType, Type, dims};

/// The type of a function (TVM: `FuncType`, `R.Callable`).
#[derive(Clone, Debug)]
pub struct FuncType {
    /// The symbolic dimensions that the types are written over.
    pub dims: PrimaryMap<Var, VarData>,
    /// Parameters in call order.
    pub params: Vec<Type>,
    /// Results; those of a tuple are several.
    pub results: Vec<Type>,
}

impl FuncType {
    /// The type of a function of a module.
    pub fn of(func: &FuncData) -> FuncType {
        match func {
            FuncData::Graph(func) => {
                let types = |values: &[crate::Value]| {
                    values.iter().map(|v| func.values[*v].ty.clone()).collect()
                };
                FuncType {
                    dims: func.syms.clone(),
                    params: types(&func.params),
                    results: types(&func.body.results),
                }
            }
            FuncData::Prim(kernel) => {
                let ty = |param: &Param| match param {
                    Param::Buffer(buffer) => {
                        let data = &kernel.buffers[*buffer];
                        Type::Tensor(TensorType::new(data.dtype, data.shape.clone()))
                    }
                    Param::Scalar(var) => Type::Prim(kernel.vars[*var].dtype),
                };
                let inputs = kernel.params.len() - kernel.num_outputs;
                let (params, results) = kernel.params.split_at(inputs);
                FuncType {
                    dims: kernel.vars.clone(),
                    params: params.iter().map(ty).collect(),
                    results: results.iter().map(ty).collect(),
                }
            }
        }
    }

    /// The types of the results of a call with arguments of these types. A dimension that the arguments do
    /// not determine is `None` in a tensor's shape.
    ///
    /// # Errors
    /// There are more or fewer arguments than parameters, or one does not fit.
    pub fn call(&self, args: &[Type]) -> Result<Vec<ResultType>, String> {
        if args.len() != self.params.len() {
            let (wanted, given) = (self.params.len(), args.len());
            return Err(format!("it takes {wanted} arguments, not {given}"));
        }
        let known = self.bound(args);
        for (at, (param, arg)) in self.params.iter().zip(args).enumerate() {
            let fits = fits(param, arg, &known);
            fits.map_err(|why| format!("argument {at} does not fit: {why}"))?;
        }
        Ok(self.results.iter().map(|ty| ResultType::new(ty, &known)).collect())
    }

    /// The dimensions that the arguments determine, by their first appearance in a parameter.
    fn bound(&self, args: &[Type]) -> HashMap<Var, Expr> {
        let mut known = HashMap::new();
        for (param, arg) in self.params.iter().zip(args) {
            let (own, given) = match (param, arg) {
                (Type::Tensor(own), Type::Tensor(given)) => (&own.shape, &given.shape),
                (Type::Shape(own), Type::Shape(given)) => (own, given),
                _ => continue,
            };
            for (dim, value) in own.iter().zip(given) {
                if let Some(var) = dim.as_var() {
                    known.entry(var).or_insert_with(|| value.clone());
                }
            }
        }
        known
    }
}

/// The type of a result as a call has it.
#[derive(Clone, Debug)]
pub struct ResultType {
    /// The type as the function declares it.
    declared: Type,
    /// The dimensions of the caller that stand for those of the function.
    known: HashMap<Var, Expr>,
}

impl ResultType {
    fn new(declared: &Type, known: &HashMap<Var, Expr>) -> ResultType {
        ResultType { declared: declared.clone(), known: known.clone() }
    }

    /// Whether a value that the call gives may be declared so.
    ///
    /// # Errors
    /// Says what differs.
    pub fn fits(&self, declared: &Type) -> Result<(), String> {
        fits(&self.declared, declared, &self.known)
    }
}

/// Whether a value of type `arg` may stand for `param`; what is not known to differ may.
fn fits(param: &Type, arg: &Type, known: &HashMap<Var, Expr>) -> Result<(), String> {
    let dims_fit = |own: &[Expr], given: &[Expr]| {
        if own.len() != given.len() {
            return Err(format!("it has rank {}, not {}", given.len(), own.len()));
        }
        for (axis, (own, given)) in own.iter().zip(given).enumerate() {
            let mut determined = true;
            own.visit(&mut |e| determined &= e.as_var().is_none_or(|var| known.contains_key(&var)));
            let own = own.substitute(&|var| known.get(&var).cloned());
            if determined && dims::equal(&dims::simplify(&own), given) == Some(false) {
                return Err(format!("its dimension {axis} is {given:?}, not {own:?}"));
            }
        }
        Ok(())
    };
    match (param, arg) {
        (Type::Tensor(own), Type::Tensor(given)) => {
            if own.dtype != given.dtype {
                return Err(format!("it is of {}, not of {}", given.dtype, own.dtype));
            }
            dims_fit(&own.shape, &given.shape)
        }
        (Type::Shape(own), Type::Shape(given)) => dims_fit(own, given),
        (Type::Tuple(own), Type::Tuple(given)) if own.len() == given.len() => {
            own.iter().zip(given).try_for_each(|(own, given)| fits(own, given, known))
        }
        (Type::Tuple(own), Type::Tuple(given)) => {
            Err(format!("it has {} fields, not {}", given.len(), own.len()))
        }
        (
            Type::Tensor(_) | Type::AnyTensor { .. },
            Type::Shape(_) | Type::AnyShape | Type::Tuple(_),
        )
        | (
            Type::Shape(_) | Type::AnyShape,
            Type::Tensor(_) | Type::AnyTensor { .. } | Type::Tuple(_),
        )
        | (
            Type::Tuple(_),
            Type::Tensor(_) | Type::AnyTensor { .. } | Type::Shape(_) | Type::AnyShape,
        ) => Err("it is a value of another kind".to_owned()),
        _ => Ok(()),
    }
}

/// As TVM prints it: `R.Callable((R.Tensor((n, 8), dtype="float32"),), R.Tensor((n,), dtype="float32"))`.
impl fmt::Display for FuncType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |types: &[Type]| {
            let texts: Vec<String> = types.iter().map(|ty| self.text(ty)).collect();
            texts.join(", ")
        };
        let comma = if self.params.len() == 1 { "," } else { "" };
        let result = match &self.results[..] {
            [one] => self.text(one),
            several => format!("R.Tuple({})", list(several)),
        };
        write!(f, "R.Callable(({}{comma}), {result})", list(&self.params))
    }
}

impl FuncType {
    fn text(&self, ty: &Type) -> String {
        let name = |var: Var| self.dims[var].name.to_string();
        let shape = |dims: &[Expr]| {
            let texts: Vec<String> = dims.iter().map(|e| DimPrinter(&name).text(e)).collect();
            match &texts[..] {
                [one] => format!("({one},)"),
                texts => format!("({})", texts.join(", ")),
            }
        };
        match ty {
            Type::Tensor(ty) => {
                format!("R.Tensor({}, dtype=\"{}\")", shape(&ty.shape), ty.dtype)
            }
            Type::Shape(dims) => {
                let inner: Vec<String> = dims.iter().map(|e| DimPrinter(&name).text(e)).collect();
                format!("R.Shape([{}])", inner.join(", "))
            }
            Type::AnyShape => "R.Shape".to_owned(),
            Type::AnyTensor { .. } => "R.Tensor".to_owned(),
            Type::Prim(dtype) => format!("R.Prim(\"{dtype}\")"),
            Type::Tuple(types) => {
                let inner: Vec<String> = types.iter().map(|ty| self.text(ty)).collect();
                format!("R.Tuple({})", inner.join(", "))
            }
            Type::Func => "R.Callable".to_owned(),
            Type::Object => "R.Any".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::verify;
    use crate::{Module, script};

    const TEXT: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def scale(x: T.Buffer((n, T.int64(4)), "float32"), y: T.Buffer((n, T.int64(4)), "float32")):
        for i, j in T.grid(n, T.int64(4)):
            with T.sblock("y"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[vi, vj] * T.float32(2.0)

    @R.function(private=True)
    def again(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        return R.add(x, x)

    @R.function
    def main(x: R.Tensor((3, 4), "float32")):
        cls = Module
        a = R.call_tir(cls.scale, (x,), out_ty=R.Tensor((3, 4), "float32"))
        b: R.Tensor((3, 4), "float32") = cls.again(a)
        return b
"#;

    fn module(text: &str) -> Module {
        let text = format!("from typing import TypeVar\nn = TypeVar(\"n\")\n{text}");
        script::parse(&text, "test.py").unwrap_or_else(|e| panic!("{e}"))
    }

    fn of(module: &Module, name: &str) -> FuncType {
        FuncType::of(module.funcs.values().find(|func| func.name() == name).unwrap())
    }

    #[test]
    fn functions_of_both_kinds_have_one_form_of_type() {
        let module = module(TEXT);
        let expected = "R.Callable((R.Tensor((n, 4), dtype=\"float32\"),), R.Tensor((n, 4), dtype=\"float32\"))";
        assert_eq!(of(&module, "scale").to_string(), expected);
        assert_eq!(of(&module, "again").to_string(), expected);
        assert_eq!(verify(&module), Ok(()));
    }

    #[test]
    fn calls_of_both_kinds_are_checked_by_one_rule() {
        let module = module(TEXT);
        let tensor = |dtype, shape: &[i64]| {
            let shape = shape.iter().map(|dim| Expr::i64(*dim)).collect();
            Type::Tensor(TensorType::new(dtype, shape))
        };
        let (f32, i32) = (reflex_tir::DType::F32, reflex_tir::DType::I32);
        for name in ["scale", "again"] {
            let ty = of(&module, name);
            let results = ty.call(&[tensor(f32, &[3, 4])]).unwrap();
            assert_eq!(results[0].fits(&tensor(f32, &[3, 4])), Ok(()));
            let wrong = results[0].fits(&tensor(f32, &[2, 4])).unwrap_err();
            assert!(wrong.contains("dimension 0"), "{wrong}");
            let errors = [
                (vec![], "takes 1 arguments, not 0"),
                (vec![tensor(i32, &[3, 4])], "of int32, not of float32"),
                (vec![tensor(f32, &[3])], "rank 1, not 2"),
                (vec![tensor(f32, &[3, 5])], "dimension 1"),
                (vec![Type::Tuple(vec![])], "another kind"),
            ];
            for (args, wanted) in errors {
                let error = ty.call(&args).unwrap_err();
                assert!(error.contains(wanted), "{name}: {error}");
            }
            // Left open until the program runs.
            assert!(ty.call(&[Type::Object]).is_ok());
        }
    }

    #[test]
    fn the_verifier_refuses_calls_that_do_not_fit() {
        for (from, to) in [
            ("(x,), out_ty=R.Tensor((3, 4)", "(x,), out_ty=R.Tensor((2, 4)"),
            ("def main(x: R.Tensor((3, 4)", "def main(x: R.Tensor((3, 5)"),
            ("b: R.Tensor((3, 4), \"float32\") = cls", "b: R.Tensor((3, 4), \"int32\") = cls"),
        ] {
            let text = TEXT.replace(from, to);
            assert_ne!(text, TEXT, "{from}");
            let text = format!("from typing import TypeVar\nn = TypeVar(\"n\")\n{text}");
            let refused = script::parse(&text, "test.py").map(|module| verify(&module));
            assert!(!matches!(refused, Ok(Ok(()))), "{to}");
        }
    }
}
