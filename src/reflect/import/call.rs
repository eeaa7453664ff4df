//! Calls in graph functions as text.

use reflex_node::graph::{Data, Field, NodeId};
use reflex_tir::script::string;

use super::Writer;
use super::func::tuple;
use super::prim;
use super::reader::Read;
use super::types::Position;

impl Writer<'_> {
    /// A call of an operator, a function or a packed function.
    pub(super) fn call(&mut self, id: NodeId) -> Read<String> {
        let (op, args) = (self.nodes.child(id, "op")?, self.nodes.list(id, "args")?);
        match self.nodes.key(op) {
            "ir.GlobalVar" | "ir.Var" => {
                let (callee, args) = (self.expr(op)?, self.exprs(&args)?);
                Ok(format!("{callee}({})", args.join(", ")))
            }
            "relax.expr.ExternFunc" => {
                let name = string(self.nodes.child_text(op, "global_symbol")?);
                let mut list = vec![name];
                list.extend(self.exprs(&args)?);
                list.extend(self.ty_args(id)?);
                Ok(format!("R.call_packed({})", list.join(", ")))
            }
            "ir.Op" => {
                let name = self.nodes.text(op)?;
                let Some(name) = name.strip_prefix("relax.") else {
                    return Err(format!("a call of `{name:.64}`"));
                };
                self.operator(id, name, &args)
            }
            key => Err(format!("a call of a {key:.64}")),
        }
    }

    fn exprs(&mut self, ids: &[NodeId]) -> Read<Vec<String>> {
        ids.iter().map(|id| self.expr(*id)).collect()
    }

    /// `ty_args=(TYPE,)`, if there are any.
    fn ty_args(&mut self, id: NodeId) -> Read<Option<String>> {
        let types = self.nodes.list(id, "ty_args")?;
        if types.is_empty() {
            return Ok(None);
        }
        let types: Vec<String> =
            types.iter().map(|ty| self.ty(*ty, Position::Body)).collect::<Read<_>>()?;
        Ok(Some(format!("ty_args={}", tuple(&types))))
    }

    fn operator(&mut self, id: NodeId, name: &str, args: &[NodeId]) -> Read<String> {
        let attrs = self.nodes.optional(id, "attrs")?;
        match (name, args) {
            ("call_tir" | "call_tir_inplace", [callee, tuple]) => {
                let (callee, list) = (self.expr(*callee)?, self.expr(*tuple)?);
                let list = if list == "R.tuple()" { "()".to_owned() } else { list };
                let attrs = self.attributes(attrs)?;
                Ok(format!("R.{name}({callee}, {list}, {}{attrs})", self.out_ty(id)?))
            }
            ("call_dps_packed", [callee, tuple]) => {
                let (callee, list) = (self.packed_name(*callee)?, self.expr(*tuple)?);
                Ok(format!("R.{name}({callee}, {list}, {})", self.out_ty(id)?))
            }
            ("call_builtin_with_ctx", [callee, tuple]) => {
                let list = vec![self.packed_name(*callee)?, self.expr(*tuple)?];
                let list: Vec<String> = list.into_iter().chain(self.ty_args(id)?).collect();
                Ok(format!("R.{name}({})", list.join(", ")))
            }
            ("call_pure_packed", [callee, rest @ ..]) => match attrs {
                Some(attrs) => self.outside(*callee, rest, attrs),
                None => {
                    let mut list = vec![self.packed_name(*callee)?];
                    list.extend(self.exprs(rest)?);
                    list.extend(self.ty_args(id)?);
                    Ok(format!("R.call_pure_packed({})", list.join(", ")))
                }
            },
            _ => {
                let mut list = self.exprs(args)?;
                list.extend(self.ty_args(id)?);
                let attrs = self.attributes(attrs)?;
                let separator =
                    if list.is_empty() { attrs.trim_start_matches(", ") } else { &attrs };
                Ok(format!("R.{name}({}{separator})", list.join(", ")))
            }
        }
    }

    /// The name of a packed function, in quotes.
    fn packed_name(&mut self, id: NodeId) -> Read<String> {
        self.nodes.expect(id, "relax.expr.ExternFunc")?;
        Ok(string(self.nodes.child_text(id, "global_symbol")?))
    }

    /// `out_ty=TYPE`, a list where there are several.
    fn out_ty(&mut self, id: NodeId) -> Read<String> {
        let types = self.nodes.list(id, "ty_args")?;
        let [ty] = types[..] else { return Err("a call of a kernel without one type".to_owned()) };
        if self.nodes.key(ty) != "ir.TupleType" {
            return Ok(format!("out_ty={}", self.ty(ty, Position::Body)?));
        }
        let fields = self.nodes.list(ty, "fields")?;
        let types: Vec<String> =
            fields.iter().map(|ty| self.ty(*ty, Position::Body)).collect::<Read<_>>()?;
        Ok(format!("out_ty=[{}]", types.join(", ")))
    }

    /// A call of what TVM has no node for.
    fn outside(&mut self, callee: NodeId, args: &[NodeId], attrs: NodeId) -> Read<String> {
        self.nodes.expect(callee, "relax.expr.ExternFunc")?;
        let name = self.nodes.child_text(callee, "global_symbol")?;
        let name = name.strip_prefix("reflex.of.").unwrap_or(name);
        let is_path = name.split('.').all(|part| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        });
        if !is_path {
            return Err(format!("a call of `{name:.64}`"));
        }
        let mut list = vec![];
        for arg in args {
            list.push(match self.nodes.key(*arg) {
                "ir.StringImm" => string(self.nodes.child_text(*arg, "value")?),
                _ => self.expr(*arg)?,
            });
        }
        for (key, value) in self.nodes.attrs(Some(attrs))? {
            list.push(format!("{}={}", reflex_tir::script::identifier(&key), self.plain(value)?));
        }
        Ok(format!("R.{name}({})", list.join(", ")))
    }

    /// `, name=value` for each attribute.
    fn attributes(&mut self, attrs: Option<NodeId>) -> Read<String> {
        let Some(attrs) = attrs else { return Ok(String::new()) };
        if self.nodes.key(attrs) == "ir.DictAttrs" {
            let entries = self.nodes.attrs(Some(attrs))?;
            let mut out = String::new();
            for (key, value) in entries {
                let name = reflex_tir::script::identifier(&key);
                out.push_str(&format!(", {name}={}", self.plain(value)?));
            }
            return Ok(out);
        }
        let Data::Fields(fields) = &self.nodes.node(attrs).data else {
            return Err(format!("{:.64} as attributes", self.nodes.key(attrs)));
        };
        let mut out = String::new();
        for (name, field) in fields {
            let text = match field {
                Field::Value(value) => prim::value(value),
                Field::Node(id) => self.plain(*id)?,
            };
            out.push_str(&format!(", {}={text}", reflex_tir::script::identifier(name)));
        }
        Ok(out)
    }
}
