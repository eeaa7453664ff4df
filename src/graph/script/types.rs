//! Types and symbolic dimensions.

use std::collections::{HashMap, HashSet};

use cranelift_entity::EntityRef;
use reflex_tir::{DType, Expr, Var};
use ruff_python_ast::visitor::{Visitor, walk_expr};
use ruff_python_ast::{self as ast, Expr as Py};
use ruff_text_size::Ranged;

use super::args::{Args, dtype, elements, int};
use super::memory::is_cpu_text;
use super::source::{Result, Source};
use crate::{TensorType, Type};

/// The symbolic dimensions of one function. Variables are numbered in order of creation.
pub(super) struct SymbolicDims<'s> {
    pub source: Source<'s>,
    /// Names that the module declares; a function's variable comes with the first mention.
    symbols: &'s HashSet<String>,
    vars: HashMap<String, Var>,
    /// Name hints of all variables.
    pub order: Vec<String>,
}

/// A type annotation (Relax `StructInfo`).
#[derive(Clone, Debug)]
pub(super) enum Annotation {
    Tensor { dtype: Option<DType>, dims: ShapeAnnotation },
    Shape(ShapeAnnotation),
    Prim(DType),
    Tuple(Vec<Annotation>),
    Func,
    Any,
}

/// The dimensions that a type annotation gives.
#[derive(Clone, Debug)]
pub(super) enum ShapeAnnotation {
    /// Every dimension.
    Dims(Vec<Expr>),
    /// Their number only.
    Rank(usize),
    /// Neither dimensions nor rank.
    Unknown,
}

impl<'s> SymbolicDims<'s> {
    pub fn new(source: Source<'s>, symbols: &'s HashSet<String>) -> SymbolicDims<'s> {
        SymbolicDims { source, symbols, vars: HashMap::new(), order: vec![] }
    }

    /// A dimension without a name in the text.
    pub fn fresh(&mut self, hint: &str) -> Expr {
        let var = Var::new(self.order.len());
        self.order.push(hint.to_string());
        Expr::var(var)
    }

    /// Declares a name; the same one twice is one dimension.
    pub fn declare(&mut self, name: &str) -> Var {
        if let Some(var) = self.vars.get(name) {
            return *var;
        }
        let var = Var::new(self.order.len());
        self.order.push(name.to_string());
        self.vars.insert(name.to_string(), var);
        var
    }

    /// The dimension of a name that this function has mentioned.
    pub fn known(&self, name: &str) -> Option<Var> {
        self.vars.get(name).copied()
    }

    /// The names that the module declares.
    pub fn all_symbols(&self) -> HashSet<String> {
        self.symbols.clone()
    }

    /// The name by which a dimension is found again.
    pub fn name_of(&self, var: Var) -> Option<&str> {
        let name = self.order.get(var.index())?;
        (self.vars.get(name) == Some(&var)).then_some(name)
    }

    /// An expression over scalars under names of their own.
    pub fn expr_over(&self, e: &Py, vars: &HashMap<String, Var>) -> Result<Expr> {
        reflex_tir::script::parse_dim(e, self.source.text, vars)
            .map_err(|error| self.source.at_line(error.line, error.message))
    }

    pub fn lookup(&mut self, name: &str) -> Option<Var> {
        match self.vars.get(name) {
            Some(var) => Some(*var),
            None => self.symbols.contains(name).then(|| self.declare(name)),
        }
    }

    /// An int64 expression over dimensions. A quoted one may introduce names.
    pub fn expr(&mut self, e: &Py) -> Result<Expr> {
        match e {
            Py::NumberLiteral(_) => Ok(Expr::i64(int(self.source, e)?)),
            Py::Name(name) => match self.lookup(name.id.as_str()) {
                Some(var) => Ok(Expr::var(var)),
                None => Err(self.source.expected("a dimension", e)),
            },
            Py::StringLiteral(quoted) => {
                let text = quoted.value.to_str();
                let refuse = || self.source.expected("a dimension", e);
                reflex_tir::script::check_nesting(text).map_err(|_| refuse())?;
                let parsed = ruff_python_parser::parse_expression(text).map_err(|_| refuse())?;
                let inner = parsed.into_expr();
                for name in names_in(&inner) {
                    self.declare(&name);
                }
                // Positions inside the quotes are not positions of the file.
                self.scalar(&inner).map_err(|_| self.source.unsupported(e))
            }
            _ => {
                for name in names_in(e) {
                    self.lookup(&name);
                }
                self.scalar(e)
            }
        }
    }

    fn scalar(&self, e: &Py) -> Result<Expr> {
        reflex_tir::script::parse_dim(e, self.source.text, &self.vars)
            .map_err(|error| self.source.at_line(error.line, error.message))
    }

    /// `(n, 4)`, `[n, 4]` or `R.shape([n, 4])`.
    pub fn list(&mut self, e: &Py) -> Result<Vec<Expr>> {
        if let Some(list) = elements(e) {
            return list.iter().map(|e| self.expr(e)).collect();
        }
        match e {
            Py::Call(call) if is_path(&call.func, "R.shape") => {
                let args = Args::bind(self.source, call, &["dims"])?;
                self.list(args.need("dims")?)
            }
            _ => Err(self.source.expected("a shape", e)),
        }
    }

    /// A type annotation.
    pub fn annotation(&mut self, e: &Py) -> Result<Annotation> {
        let (name, call) = match e {
            Py::Call(call) => (reflex_tir::script::path(&call.func), Some(call)),
            _ => (reflex_tir::script::path(e), None),
        };
        Ok(match (name.as_deref(), call) {
            (Some("R.Tensor"), None) => {
                Annotation::Tensor { dtype: None, dims: ShapeAnnotation::Unknown }
            }
            (Some("R.Tensor"), Some(call)) => self.tensor(call)?,
            (Some("R.Shape"), None) => Annotation::Shape(ShapeAnnotation::Unknown),
            (Some("R.Shape"), Some(call)) => {
                let args = Args::bind(self.source, call, &["values", "ndim"])?;
                Annotation::Shape(self.shape_annotation(&args, "values")?)
            }
            (Some("R.Prim"), Some(call)) => {
                let args = Args::bind(self.source, call, &["dtype"])?;
                Annotation::Prim(dtype(self.source, args.need("dtype")?)?)
            }
            (Some("R.Tuple"), None) => Annotation::Tuple(vec![]),
            (Some("R.Tuple"), Some(call)) => {
                let items = match &*call.arguments.args {
                    [one] if elements(one).is_some() => elements(one).unwrap_or_default(),
                    items => items,
                };
                Annotation::Tuple(items.iter().map(|e| self.annotation(e)).collect::<Result<_>>()?)
            }
            (Some("R.Any" | "R.Object"), _) | (Some("I.StringType"), Some(_)) => Annotation::Any,
            (Some(path), None) if path.starts_with("T.") => {
                let dtype = path[2..].parse().map_err(|_| self.source.expected("a type", e))?;
                Annotation::Prim(dtype)
            }
            (Some("R.Callable"), _) => Annotation::Func,
            _ => return Err(self.source.expected("a type", e)),
        })
    }

    fn tensor(&mut self, call: &ast::ExprCall) -> Result<Annotation> {
        let args = Args::bind(self.source, call, &["shape", "dtype", "vdevice", "ndim"])?;
        if let Some(device) = args.get("vdevice").filter(|e| !is_cpu_text(args.source, e)) {
            return Err(args.source.unsupported(device));
        }
        // TVM takes an element type as the first argument too.
        if let Some(text @ Py::StringLiteral(_)) = args.get("shape") {
            let dims = self.rank(&args)?;
            return Ok(Annotation::Tensor { dtype: Some(dtype(self.source, text)?), dims });
        }
        let dims = self.shape_annotation(&args, "shape")?;
        Ok(Annotation::Tensor { dtype: args.dtype("dtype")?, dims })
    }

    fn shape_annotation(&mut self, args: &Args<'_>, name: &str) -> Result<ShapeAnnotation> {
        match args.get(name) {
            // A shape that is a value.
            Some(Py::Name(_)) => Ok(ShapeAnnotation::Unknown),
            Some(shape) => Ok(ShapeAnnotation::Dims(self.list(shape)?)),
            None => self.rank(args),
        }
    }

    fn rank(&self, args: &Args<'_>) -> Result<ShapeAnnotation> {
        Ok(match args.get("ndim") {
            Some(e) => match usize::try_from(int(self.source, e)?) {
                Ok(rank) if rank <= 64 => ShapeAnnotation::Rank(rank),
                // TVM's way to say that the rank is not known.
                _ => ShapeAnnotation::Unknown,
            },
            None => ShapeAnnotation::Unknown,
        })
    }

    /// The type that was written, with fresh dimensions where it tells only the rank.
    pub fn complete(&mut self, declared: Annotation, hint: &str, at: &impl Ranged) -> Result<Type> {
        let missing = |what: &str| {
            let text = self.source.shown(at);
            self.source.refuse(at.start(), format!("`{text}` has no {what}"))
        };
        Ok(match declared {
            Annotation::Tensor { dtype: None, dims: ShapeAnnotation::Dims(_) } => {
                return Err(missing("element type"));
            }
            Annotation::Shape(ShapeAnnotation::Unknown) => Type::AnyShape,
            Annotation::Tensor { dtype, dims: ShapeAnnotation::Unknown } => {
                Type::AnyTensor { dtype, rank: None }
            }
            Annotation::Tensor { dtype: None, dims: ShapeAnnotation::Rank(rank) } => {
                Type::AnyTensor { dtype: None, rank: Some(rank) }
            }
            Annotation::Tensor { dtype: Some(dtype), dims } => {
                Type::Tensor(TensorType::new(dtype, self.known_dims(dims, hint)))
            }
            Annotation::Shape(dims) => Type::Shape(self.known_dims(dims, hint)),
            Annotation::Prim(dtype) => Type::Prim(dtype),
            Annotation::Tuple(items) => {
                let items = items.into_iter().map(|item| self.complete(item, hint, at));
                Type::Tuple(items.collect::<Result<_>>()?)
            }
            Annotation::Func => Type::Func,
            Annotation::Any => Type::Object,
        })
    }

    fn known_dims(&mut self, dims: ShapeAnnotation, hint: &str) -> Vec<Expr> {
        match dims {
            ShapeAnnotation::Dims(dims) => dims,
            ShapeAnnotation::Rank(rank) => {
                (0..rank).map(|i| self.fresh(&format!("{hint}_{i}"))).collect()
            }
            ShapeAnnotation::Unknown => vec![],
        }
    }

    /// Reads a type whose rank is known.
    pub fn ty(&mut self, e: &Py, hint: &str) -> Result<Type> {
        let declared = self.annotation(e)?;
        self.complete(declared, hint, e)
    }
}

pub(super) fn is_path(e: &Py, path: &str) -> bool {
    reflex_tir::script::path(e).is_some_and(|p| p == path)
}

/// The names that an expression mentions, but `T`.
pub(super) fn names_in(e: &Py) -> Vec<String> {
    struct Names(Vec<String>);
    impl Visitor<'_> for Names {
        fn visit_expr(&mut self, e: &Py) {
            match e {
                Py::Name(name) if name.id.as_str() != "T" => self.0.push(name.id.to_string()),
                _ => walk_expr(self, e),
            }
        }
    }
    let mut names = Names(vec![]);
    names.visit_expr(e);
    names.0
}
