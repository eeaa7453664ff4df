//! Arguments of a call, bound to the names of a signature, and their plain values.

use reflex_tir::DType;
use ruff_python_ast::{self as ast, Expr as Py, UnaryOp};
use ruff_text_size::{Ranged, TextSize};

use super::op_names::ScriptName;
use super::source::{Result, ScriptError, Source};

/// A call whose arguments have been matched to parameter names.
pub(super) struct Args<'a> {
    pub source: Source<'a>,
    pub call: &'a ast::ExprCall,
    names: &'static [&'static str],
    values: Vec<Option<&'a Py>>,
}

impl<'a> Args<'a> {
    /// Matches arguments by position, then by keyword; what does not match is refused.
    pub fn bind(
        source: Source<'a>,
        call: &'a ast::ExprCall,
        names: &'static [&'static str],
    ) -> Result<Args<'a>> {
        let mut args = Args { source, call, names, values: vec![None; names.len()] };
        for (index, value) in call.arguments.args.iter().enumerate() {
            match args.values.get_mut(index) {
                Some(slot) if !matches!(value, Py::Starred(_)) => *slot = Some(value),
                _ => return Err(source.unsupported(value)),
            }
        }
        for keyword in &call.arguments.keywords {
            let name = keyword.arg.as_ref().map(|n| n.as_str());
            let at = names.iter().position(|n| Some(*n) == name);
            let Some(at) = at.filter(|at| args.values[*at].is_none()) else {
                let text = source.shown(keyword);
                return Err(source.refuse(
                    keyword.start(),
                    format!(
                        "argument `{text}` of `{}` is not supported",
                        source.shown(&*call.func)
                    ),
                ));
            };
            args.values[at] = Some(&keyword.value);
        }
        Ok(args)
    }

    pub fn at(&self) -> TextSize {
        self.call.start()
    }

    /// The argument, unless it is absent or `None`.
    pub fn get(&self, name: &str) -> Option<&'a Py> {
        let index = self.names.iter().position(|n| *n == name).expect("a name of the signature");
        self.values[index].filter(|v| !matches!(v, Py::NoneLiteral(_)))
    }

    pub fn need(&self, name: &str) -> Result<&'a Py> {
        self.get(name).ok_or_else(|| {
            let call = self.source.shown(&*self.call.func);
            self.source.refuse(self.at(), format!("`{call}` needs the argument `{name}`"))
        })
    }

    fn or<T>(
        &self,
        name: &str,
        default: T,
        read: impl Fn(Source<'a>, &Py) -> Result<T>,
    ) -> Result<T> {
        self.get(name).map_or(Ok(default), |value| read(self.source, value))
    }

    pub fn boolean(&self, name: &str, default: bool) -> Result<bool> {
        self.or(name, default, boolean)
    }

    pub fn int(&self, name: &str, default: i64) -> Result<i64> {
        self.or(name, default, int)
    }

    pub fn float(&self, name: &str, default: f64) -> Result<f64> {
        self.or(name, default, float)
    }

    pub fn string(&self, name: &str, default: &'static str) -> Result<String> {
        self.or(name, default.to_string(), |s, e| string(s, e).map(str::to_string))
    }

    pub fn dtype(&self, name: &str) -> Result<Option<DType>> {
        self.get(name).map(|value| dtype(self.source, value)).transpose()
    }

    /// A list of integers, or one for a list of it.
    pub fn ints(&self, name: &str) -> Result<Option<Vec<i64>>> {
        self.get(name).map(|value| ints(self.source, value)).transpose()
    }

    /// One of the names of an attribute value.
    pub fn named<T: ScriptName>(&self, name: &str, default: T) -> Result<T> {
        let Some(value) = self.get(name) else { return Ok(default) };
        T::from_script_name(string(self.source, value)?)
            .ok_or_else(|| self.source.unsupported(value))
    }

    /// Refuses an argument unless it is absent, `None` or one of these strings.
    pub fn only(&self, name: &str, strings: &[&str]) -> Result<()> {
        match self.get(name) {
            Some(value) if !strings.contains(&string(self.source, value)?) => {
                Err(self.refuse(name, value))
            }
            _ => Ok(()),
        }
    }

    /// Refuses an argument unless it is absent, `None` or `True`.
    pub fn only_true(&self, name: &str) -> Result<()> {
        match self.get(name) {
            Some(value) if !boolean(self.source, value)? => Err(self.refuse(name, value)),
            _ => Ok(()),
        }
    }

    fn refuse(&self, name: &str, value: &Py) -> ScriptError {
        let (call, text) = (self.source.shown(&*self.call.func), self.source.shown(value));
        self.source.refuse(value.start(), format!("`{name}={text}` of `{call}` is not supported"))
    }
}

pub(super) fn boolean(source: Source<'_>, e: &Py) -> Result<bool> {
    match e {
        Py::BooleanLiteral(b) => Ok(b.value),
        Py::NumberLiteral(_) => Ok(int(source, e)? != 0),
        _ => Err(source.expected("True or False", e)),
    }
}

pub(super) fn int(source: Source<'_>, e: &Py) -> Result<i64> {
    let found = match e {
        Py::NumberLiteral(ast::ExprNumberLiteral { value: ast::Number::Int(i), .. }) => i.as_i64(),
        Py::UnaryOp(u) if u.op == UnaryOp::USub => int(source, &u.operand)?.checked_neg(),
        // `T.int64(1)`
        Py::Call(call) => match (&*call.arguments.args, &*call.func) {
            ([one], Py::Attribute(a)) if a.attr.starts_with("int") => Some(int(source, one)?),
            _ => None,
        },
        _ => None,
    };
    found.ok_or_else(|| source.expected("an integer", e))
}

pub(super) fn float(source: Source<'_>, e: &Py) -> Result<f64> {
    match e {
        Py::NumberLiteral(ast::ExprNumberLiteral { value: ast::Number::Float(x), .. }) => Ok(*x),
        Py::NumberLiteral(_) => Ok(int(source, e)? as f64),
        Py::UnaryOp(u) if u.op == UnaryOp::USub => Ok(-float(source, &u.operand)?),
        Py::StringLiteral(s) => match s.value.to_str() {
            "nan" => Ok(f64::NAN),
            "inf" => Ok(f64::INFINITY),
            "-inf" => Ok(f64::NEG_INFINITY),
            _ => Err(source.expected("a number", e)),
        },
        // `T.float32(1.0)`, `float("inf")`
        Py::Call(call) => match (&*call.arguments.args, &*call.func) {
            ([one], Py::Attribute(a)) if a.attr.starts_with("float") => float(source, one),
            ([one], Py::Name(n)) if n.id.as_str() == "float" => float(source, one),
            _ => Err(source.expected("a number", e)),
        },
        _ => Err(source.expected("a number", e)),
    }
}

pub(super) fn string<'e>(source: Source<'_>, e: &'e Py) -> Result<&'e str> {
    match e {
        Py::StringLiteral(s) => Ok(s.value.to_str()),
        _ => Err(source.expected("a string", e)),
    }
}

pub(super) fn dtype(source: Source<'_>, e: &Py) -> Result<DType> {
    let text = string(source, e)?;
    match text.parse::<DType>() {
        Ok(dtype) if dtype.is_scalar() => Ok(dtype),
        _ => Err(source.expected("an element type", e)),
    }
}

pub(super) fn ints(source: Source<'_>, e: &Py) -> Result<Vec<i64>> {
    match elements(e) {
        Some(list) => list.iter().map(|e| int(source, e)).collect(),
        None => Ok(vec![int(source, e)?]),
    }
}

/// The elements of a list or tuple.
pub(super) fn elements(e: &Py) -> Option<&[Py]> {
    match e {
        Py::List(l) => Some(&l.elts),
        Py::Tuple(t) => Some(&t.elts),
        _ => None,
    }
}
