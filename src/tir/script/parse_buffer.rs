//! Buffers, their shapes and aliases of them, from text.

use ruff_python_ast::{self as ast, Expr as Py};
use ruff_text_size::{Ranged, TextSize};

use super::nesting::check_nesting;
use super::parse::{Name, Parser, Read};
use crate::{Buffer, BufferData, DType, Expr, Param, Scope};

impl Parser<'_> {
    /// A buffer of its declaration.
    pub fn buffer(&mut self, name: &str, args: &ast::Arguments, at: TextSize) -> Read<Buffer> {
        let data = self.declared(name, args, at)?;
        Ok(self.func.buffers.push(data))
    }

    /// `(shape, dtype, scope=...)` of a buffer declaration.
    fn declared(&mut self, name: &str, args: &ast::Arguments, at: TextSize) -> Read<BufferData> {
        let mut dtype = DType::F32;
        let mut scope = Scope::Global;
        let Some(shape) = args.args.first() else {
            return Err(self.refuse(at, "a buffer needs a shape"));
        };
        let named = args.keywords.iter().map(|k| (k.arg.as_ref().map(|a| a.as_str()), &k.value));
        let positional = args.args.iter().skip(1).zip(["dtype", "?"]);
        for (key, value) in positional.map(|(v, k)| (Some(k), v)).chain(named) {
            match (key, value) {
                // Every buffer begins where its data pointer says, and needs no more than its
                // elements' own alignment.
                (Some("align"), Py::NumberLiteral(_)) => continue,
                (Some("elem_offset"), Py::Name(offset)) => {
                    self.scopes[0].insert(offset.id.to_string(), Name::Zero);
                    continue;
                }
                (Some("elem_offset"), Py::NumberLiteral(n)) if is_zero(n) => continue,
                _ => {}
            }
            let Py::StringLiteral(text) = value else { return Err(self.unsupported(value)) };
            let text = text.value.to_str();
            match key {
                Some("dtype") => {
                    dtype = text.parse().map_err(|e| self.refuse(value.start(), format!("{e}")))?;
                }
                Some("scope") => {
                    scope = match text {
                        "global" => Scope::Global,
                        "local" => Scope::Local,
                        "shared" => Scope::Shared,
                        "tile" => Scope::Tile,
                        _ => return Err(self.unsupported(value)),
                    };
                }
                _ => return Err(self.unsupported(value)),
            }
        }
        let shape = match shape {
            Py::Tuple(t) => t.elts.iter().map(|e| self.extent(e)).collect::<Read<_>>()?,
            Py::List(t) => t.elts.iter().map(|e| self.extent(e)).collect::<Read<_>>()?,
            one => vec![self.extent(one)?],
        };
        Ok(BufferData { name: name.into(), dtype, shape, scope })
    }

    /// A dimension of a shape, which may be the first mention of a symbolic dimension.
    fn extent(&mut self, e: &Py) -> Read<Expr> {
        if let Py::StringLiteral(quoted) = e {
            // Computed from symbolic dimensions: an expression of its own.
            let text = quoted.value.to_str();
            check_nesting(text).map_err(|_| self.unsupported(e))?;
            let parsed = ruff_python_parser::parse_expression(text);
            let Ok(parsed) = parsed else { return Err(self.unsupported(e)) };
            let inner = parsed.into_expr();
            self.declare_symbols(&inner);
            // Places inside the quotes mean nothing to the reader; the quotes do.
            return self.index(&inner).map_err(|_| self.unsupported(e));
        }
        self.declare_symbols(e);
        self.index(e)
    }

    fn is_symbol(&self, name: &str) -> bool {
        self.symbols.iter().any(|s| s == name)
    }

    fn declare_symbols(&mut self, e: &Py) {
        match e {
            Py::Name(n) if self.lookup(&n.id).is_none() && self.is_symbol(&n.id) => {
                let var = self.func.new_var(n.id.as_str());
                // Dimensions are known to the whole function.
                self.scopes[0].insert(n.id.to_string(), Name::Var(var));
            }
            Py::BinOp(b) => {
                let mut e = b;
                // Left-leaning chains are walked, not recursed into.
                loop {
                    if let Py::Name(_) = &*e.right {
                        self.declare_symbols(&e.right);
                    }
                    match &*e.left {
                        Py::BinOp(left) => e = left,
                        Py::Name(_) => break self.declare_symbols(&e.left),
                        _ => break,
                    }
                }
            }
            _ => {}
        }
    }

    /// `A = T.match_buffer(a, shape, dtype)` of a handle parameter.
    pub fn match_buffer(&mut self, name: &str, call: &ast::ExprCall) -> Read<()> {
        let Some((Py::Name(handle), rest)) = call.arguments.args.split_first() else {
            return Err(self.unsupported(call));
        };
        let Some(at) = self.handles.remove(handle.id.as_str()) else {
            let message = format!("`{}` is not a handle parameter", handle.id);
            return Err(self.refuse(call.start(), message));
        };
        let mut arguments = call.arguments.clone();
        arguments.args = rest.to_vec().into_boxed_slice();
        let buffer = self.buffer(name, &arguments, call.start())?;
        self.func.params[at] = Param::Buffer(buffer);
        self.define(name, Name::Buffer(buffer));
        Ok(())
    }

    /// `B = T.decl_buffer(shape, dtype, data=A.data)`: another name for `A`, of its shape or of
    /// one dimension, where an index is a flat access.
    pub fn another_name(&mut self, name: &str, call: &ast::ExprCall) -> Read<()> {
        let mut arguments = call.arguments.clone();
        let (data, others): (Vec<_>, Vec<_>) = std::mem::take(&mut arguments.keywords)
            .into_iter()
            .partition(|k| k.arg.as_ref().is_some_and(|a| a.as_str() == "data"));
        arguments.keywords = others.into();
        let [ast::Keyword { value: Py::Attribute(data), .. }] = &data[..] else {
            return Err(self.unsupported(call));
        };
        let (Py::Name(of), "data") = (&*data.value, data.attr.as_str()) else {
            return Err(self.unsupported(call));
        };
        let Some(Name::Buffer(buffer)) = self.lookup(&of.id) else {
            return Err(self.refuse(call.start(), format!("buffer `{}` is not defined", of.id)));
        };
        let view = self.declared(name, &arguments, call.start())?;
        let data = &self.func.buffers[buffer];
        let fits = view.shape.len() == 1 || view.shape == data.shape;
        if view.dtype != data.dtype || !fits {
            let message = format!("`{name}` is neither flat nor what `{}` is", of.id);
            return Err(self.refuse(call.start(), message));
        }
        self.define(name, Name::Buffer(buffer));
        Ok(())
    }
}

fn is_zero(n: &ast::ExprNumberLiteral) -> bool {
    matches!(&n.value, ast::Number::Int(i) if i.as_i64() == Some(0))
}
