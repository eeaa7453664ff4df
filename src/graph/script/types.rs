//! Types and symbolic dimensions.

use std::collections::{HashMap, HashSet};

use cranelift_entity::EntityRef;
use reflex_tir::{DType, Expr, Var};
use ruff_python_ast::visitor::{Visitor, walk_expr};
use ruff_python_ast::{self as ast, Expr as Py};
use ruff_text_size::Ranged;

use super::args::{Args, dtype, elements, int};
use super::{Read, Source};
use crate::{TensorType, Type};

/// The symbolic dimensions of one function. Variables are numbered in order of creation.
pub(super) struct Dims<'s> {
    pub source: Source<'s>,
    /// Names that the module declares; a function's variable comes with the first mention.
    symbols: &'s HashSet<String>,
    vars: HashMap<String, Var>,
    /// Name hints of all variables.
    pub order: Vec<String>,
}

/// A type as far as it is written.
#[derive(Clone, Debug)]
pub(super) enum Written {
    Tensor { dtype: Option<DType>, dims: Known },
    Shape(Known),
    Prim(DType),
    Tuple(Vec<Written>),
    Func,
    Any,
}

/// What a type says of dimensions.
#[derive(Clone, Debug)]
pub(super) enum Known {
    Dims(Vec<Expr>),
    Rank(usize),
    Nothing,
}

impl<'s> Dims<'s> {
    pub fn new(source: Source<'s>, symbols: &'s HashSet<String>) -> Dims<'s> {
        Dims { source, symbols, vars: HashMap::new(), order: vec![] }
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
    pub fn expr_over(&self, e: &Py, vars: &HashMap<String, Var>) -> Read<Expr> {
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
    pub fn expr(&mut self, e: &Py) -> Read<Expr> {
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
                // Places inside the quotes mean nothing to the reader.
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

    fn scalar(&self, e: &Py) -> Read<Expr> {
        reflex_tir::script::parse_dim(e, self.source.text, &self.vars)
            .map_err(|error| self.source.at_line(error.line, error.message))
    }

    /// `(n, 4)`, `[n, 4]` or `R.shape([n, 4])`.
    pub fn list(&mut self, e: &Py) -> Read<Vec<Expr>> {
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
    pub fn written(&mut self, e: &Py) -> Read<Written> {
        let (name, call) = match e {
            Py::Call(call) => (reflex_tir::script::path(&call.func), Some(call)),
            _ => (reflex_tir::script::path(e), None),
        };
        Ok(match (name.as_deref(), call) {
            (Some("R.Tensor"), None) => Written::Tensor { dtype: None, dims: Known::Nothing },
            (Some("R.Tensor"), Some(call)) => self.tensor(call)?,
            (Some("R.Shape"), None) => Written::Shape(Known::Nothing),
            (Some("R.Shape"), Some(call)) => {
                let args = Args::bind(self.source, call, &["values", "ndim"])?;
                Written::Shape(self.extents(&args, "values")?)
            }
            (Some("R.Prim"), Some(call)) => {
                let args = Args::bind(self.source, call, &["dtype"])?;
                Written::Prim(dtype(self.source, args.need("dtype")?)?)
            }
            (Some("R.Tuple"), None) => Written::Tuple(vec![]),
            (Some("R.Tuple"), Some(call)) => {
                let items = match &*call.arguments.args {
                    [one] if elements(one).is_some() => elements(one).unwrap_or_default(),
                    items => items,
                };
                Written::Tuple(items.iter().map(|e| self.written(e)).collect::<Read<_>>()?)
            }
            (Some("R.Any" | "R.Object"), _) | (Some("I.StringType"), Some(_)) => Written::Any,
            (Some(path), None) if path.starts_with("T.") => {
                let dtype = path[2..].parse().map_err(|_| self.source.expected("a type", e))?;
                Written::Prim(dtype)
            }
            (Some("R.Callable"), _) => Written::Func,
            _ => return Err(self.source.expected("a type", e)),
        })
    }

    fn tensor(&mut self, call: &ast::ExprCall) -> Read<Written> {
        let args = Args::bind(self.source, call, &["shape", "dtype", "vdevice", "ndim"])?;
        args.only("vdevice", &[])?;
        // TVM takes a type in the place of the shape.
        if let Some(text @ Py::StringLiteral(_)) = args.get("shape") {
            let dims = self.rank(&args)?;
            return Ok(Written::Tensor { dtype: Some(dtype(self.source, text)?), dims });
        }
        let dims = self.extents(&args, "shape")?;
        Ok(Written::Tensor { dtype: args.dtype("dtype")?, dims })
    }

    fn extents(&mut self, args: &Args<'_>, name: &str) -> Read<Known> {
        match args.get(name) {
            // A shape that is a value.
            Some(Py::Name(_)) => Ok(Known::Nothing),
            Some(shape) => Ok(Known::Dims(self.list(shape)?)),
            None => self.rank(args),
        }
    }

    fn rank(&self, args: &Args<'_>) -> Read<Known> {
        Ok(match args.get("ndim") {
            Some(e) => match usize::try_from(int(self.source, e)?) {
                Ok(rank) if rank <= 64 => Known::Rank(rank),
                // TVM's way to say that the rank is not known.
                _ => Known::Nothing,
            },
            None => Known::Nothing,
        })
    }

    /// The type that was written, with fresh dimensions where it tells only the rank.
    pub fn complete(&mut self, written: Written, hint: &str, at: &impl Ranged) -> Read<Type> {
        let missing = |what: &str| {
            let text = self.source.shown(at);
            self.source.refuse(at.start(), format!("`{text}` has no {what}"))
        };
        Ok(match written {
            Written::Tensor { dtype: None, dims: Known::Dims(_) } => {
                return Err(missing("element type"));
            }
            Written::Shape(Known::Nothing) => Type::AnyShape,
            Written::Tensor { dtype, dims: Known::Nothing } => {
                Type::AnyTensor { dtype, rank: None }
            }
            Written::Tensor { dtype: None, dims: Known::Rank(rank) } => {
                Type::AnyTensor { dtype: None, rank: Some(rank) }
            }
            Written::Tensor { dtype: Some(dtype), dims } => {
                Type::Tensor(TensorType::new(dtype, self.known_dims(dims, hint)))
            }
            Written::Shape(dims) => Type::Shape(self.known_dims(dims, hint)),
            Written::Prim(dtype) => Type::Prim(dtype),
            Written::Tuple(items) => {
                let items = items.into_iter().map(|item| self.complete(item, hint, at));
                Type::Tuple(items.collect::<Read<_>>()?)
            }
            Written::Func => Type::Func,
            Written::Any => Type::Object,
        })
    }

    fn known_dims(&mut self, dims: Known, hint: &str) -> Vec<Expr> {
        match dims {
            Known::Dims(dims) => dims,
            Known::Rank(rank) => (0..rank).map(|i| self.fresh(&format!("{hint}_{i}"))).collect(),
            Known::Nothing => vec![],
        }
    }

    /// Reads a type whose rank is known.
    pub fn ty(&mut self, e: &Py, hint: &str) -> Read<Type> {
        let written = self.written(e)?;
        self.complete(written, hint, e)
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
