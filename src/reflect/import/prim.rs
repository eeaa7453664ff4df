//! Expressions of kernels and dimensions as text.

use reflex_node::graph::{NodeId, Value};
use reflex_tir::script::{Precedence, float};
use reflex_tir::{BinOp, CmpOp, DType, Intrin};

use super::Writer;
use super::reader::Read;
use crate::table::{BINARY, BITS, COMPARE, EXTERNAL, INTRINSICS, left};

type Text = (String, Precedence);

/// A plain value as Python writes it.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(truth) => if *truth { "True" } else { "False" }.to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => float(*number),
        Value::Text(text) => reflex_tir::script::string(text),
    }
}

impl Writer<'_> {
    /// A scalar expression.
    pub(super) fn prim(&mut self, id: NodeId) -> Read<String> {
        Ok(self.at_level(id)?.0)
    }

    pub(super) fn prims(&mut self, ids: &[NodeId]) -> Read<String> {
        let texts: Vec<String> = ids.iter().map(|id| self.prim(*id)).collect::<Read<_>>()?;
        Ok(texts.join(", "))
    }

    /// An expression, in parentheses unless it binds at least as strongly as `level`.
    fn operand(&mut self, id: NodeId, level: Precedence) -> Read<String> {
        let (text, own) = self.at_level(id)?;
        Ok(if own >= level { text } else { format!("({text})") })
    }

    fn infix(&mut self, id: NodeId, op: &str, own: Precedence, right: Precedence) -> Read<Text> {
        let (a, b) = (self.nodes.child(id, "a")?, self.nodes.child(id, "b")?);
        // Comparisons do not chain, so both sides bind more strongly.
        let left = if own == Precedence::Compare { right } else { own };
        let (a, b) = (self.operand(a, left)?, self.operand(b, right)?);
        Ok((format!("{a} {op} {b}"), own))
    }

    fn of_two(&mut self, id: NodeId, name: &str) -> Read<Text> {
        let args = [self.nodes.child(id, "a")?, self.nodes.child(id, "b")?];
        Ok((format!("T.{name}({})", self.prims(&args)?), Precedence::Atom))
    }

    fn at_level(&mut self, id: NodeId) -> Read<Text> {
        self.deeper(id, |w| w.at_level_inside(id))
    }

    fn at_level_inside(&mut self, id: NodeId) -> Read<Text> {
        let key = self.nodes.key(id);
        if let Some(op) = left(BINARY, key) {
            return self.binary(id, op);
        }
        if let Some(op) = left(COMPARE, key) {
            let op = match op {
                CmpOp::Eq => "==",
                CmpOp::Ne => "!=",
                CmpOp::Lt => "<",
                CmpOp::Le => "<=",
                CmpOp::Gt => ">",
                CmpOp::Ge => ">=",
            };
            return self.infix(id, op, Precedence::Compare, Precedence::BitOr);
        }
        if let Some(op) = left(BITS, key) {
            use Precedence::{BitAnd, BitOr, BitXor, Shift, Sum};
            return match op {
                Intrin::Shl => self.infix(id, "<<", Shift, Sum),
                Intrin::Shr => self.infix(id, ">>", Shift, Sum),
                Intrin::BitAnd => self.infix(id, "&", BitAnd, Shift),
                Intrin::BitXor => self.infix(id, "^", BitXor, BitAnd),
                _ => self.infix(id, "|", BitOr, BitXor),
            };
        }
        let atom = |text: String| Ok((text, Precedence::Atom));
        match key {
            "ir.IntImm" => self.int(id),
            "ir.FloatImm" => {
                let (dtype, value) = (self.nodes.dtype_of(id)?, self.nodes.immediate(id)?);
                atom(format!("T.{dtype}({value})"))
            }
            "ir.StringImm" => atom(self.nodes.immediate(id)?),
            "ir.Var" | "relax.expr.DataflowVar" => match self.names.get(id) {
                Some(name) => atom(name.to_owned()),
                None => {
                    let name = self.nodes.child_text(id, "name")?;
                    Err(format!("nothing defines the variable `{name:.64}`"))
                }
            },
            "prim.And" => self.infix(id, "and", Precedence::And, Precedence::Not),
            "prim.Or" => self.infix(id, "or", Precedence::Or, Precedence::And),
            "prim.Not" => {
                let a = self.nodes.child(id, "a")?;
                Ok((format!("not {}", self.operand(a, Precedence::Not)?), Precedence::Not))
            }
            "prim.BitwiseNot" => {
                let a = self.nodes.child(id, "a")?;
                Ok((format!("~{}", self.operand(a, Precedence::Unary)?), Precedence::Unary))
            }
            "prim.Select" => self.select(id),
            "prim.Cast" => {
                let (dtype, value) = (self.nodes.dtype_of(id)?, self.nodes.child(id, "value")?);
                atom(format!("T.Cast(\"{dtype}\", {})", self.prim(value)?))
            }
            "ir.TensorLoad" => atom(self.element(id, "source")?),
            "ir.Call" => atom(self.prim_call(id)?),
            key => Err(format!("{key:.64} in an expression")),
        }
    }

    /// `A[i, j]`: the buffer in a field and the indices.
    pub(super) fn element(&mut self, id: NodeId, buffer: &str) -> Read<String> {
        let buffer = self.nodes.child(id, buffer)?;
        self.nodes.expect(buffer, "ir.Var")?;
        let (buffer, indices) = (self.prim(buffer)?, self.nodes.list(id, "indices")?);
        Ok(match &indices[..] {
            [] => format!("{buffer}[()]"),
            indices => format!("{buffer}[{}]", self.prims(indices)?),
        })
    }

    fn int(&mut self, id: NodeId) -> Read<Text> {
        let (dtype, value) = (self.nodes.dtype_of(id)?, self.nodes.child_int(id, "value")?);
        let text = match dtype {
            DType::BOOL => format!("T.bool({})", if value != 0 { "True" } else { "False" }),
            DType::I64 if !self.is_kernel && value < 0 => {
                return Ok((value.to_string(), Precedence::Unary));
            }
            DType::I64 if !self.is_kernel => value.to_string(),
            DType::U64 => format!("T.uint64({})", value as u64),
            dtype => format!("T.{dtype}({value})"),
        };
        Ok((text, Precedence::Atom))
    }

    fn binary(&mut self, id: NodeId, op: BinOp) -> Read<Text> {
        use Precedence::{Product, Sum, Unary};
        let is_float = self.nodes.dtype_of(id)?.is_float();
        match op {
            BinOp::Add => self.infix(id, "+", Sum, Product),
            BinOp::Sub => self.infix(id, "-", Sum, Product),
            BinOp::Mul => self.infix(id, "*", Product, Unary),
            BinOp::Div if is_float => self.infix(id, "/", Product, Unary),
            BinOp::Div if self.is_kernel => self.of_two(id, "Div"),
            BinOp::Div => self.of_two(id, "truncdiv"),
            BinOp::Mod => self.of_two(id, "truncmod"),
            BinOp::FloorDiv => self.infix(id, "//", Product, Unary),
            BinOp::FloorMod => self.infix(id, "%", Product, Unary),
            BinOp::Min => self.of_two(id, "min"),
            BinOp::Max => self.of_two(id, "max"),
        }
    }

    /// `T.Select(c, a, b)`, and `T.abs(x)` for how TVM has the absolute value of an integer.
    fn select(&mut self, id: NodeId) -> Read<Text> {
        let [cond, x, y] =
            ["condition", "true_value", "false_value"].map(|name| self.nodes.child(id, name));
        let (cond, x, y) = (cond?, x?, y?);
        let nodes = &self.nodes;
        let is = |node: NodeId, field: &str| nodes.child(node, field).is_ok_and(|found| found == x);
        let zero = |node: NodeId, field: &str| {
            nodes
                .child(node, field)
                .is_ok_and(|found| nodes.key(found) == "ir.IntImm" && nodes.int(found) == Ok(0))
        };
        let keys = (nodes.key(cond), nodes.key(y));
        let is_abs = keys == ("prim.GE", "prim.Sub")
            && is(cond, "a")
            && zero(cond, "b")
            && zero(y, "a")
            && is(y, "b");
        let text = match is_abs {
            true => format!("T.abs({})", self.prim(x)?),
            false => format!("T.Select({})", self.prims(&[cond, x, y])?),
        };
        Ok((text, Precedence::Atom))
    }

    fn prim_call(&mut self, id: NodeId) -> Read<String> {
        let op = self.nodes.child(id, "op")?;
        self.nodes.expect(op, "ir.Op")?;
        let (name, args) = (self.nodes.text(op)?, self.nodes.list(id, "args")?);
        if name == "tirx.call_pure_extern" {
            let (name, args) = self.external(&args)?;
            let known = EXTERNAL.iter().any(|(_, external)| *external == name);
            return match known || matches!(name, "floordiv" | "floormod") {
                true => Ok(format!("T.{name}({})", self.prims(&args)?)),
                false => Err(format!("a call of `{name:.64}`")),
            };
        }
        let args = self.prims(&args)?;
        match name {
            "tirx.reinterpret" => {
                let dtype = self.nodes.dtype_of(id)?;
                Ok(format!("T.reinterpret(\"{dtype}\", {args})"))
            }
            "tirx.fmod" | "tirx.rsqrt" | "tirx.sigmoid" | "tirx.likely" => {
                Ok(format!("T.{}({args})", name.trim_start_matches("tirx.")))
            }
            name if left(INTRINSICS, name).is_some() => {
                let name = name.rsplit('.').next().unwrap_or(name);
                Ok(format!("T.{name}({args})"))
            }
            name => Err(format!("a call of `{name:.64}`")),
        }
    }

    /// The name after `reflex.` of an external function, and the arguments after it.
    pub(super) fn external(&mut self, args: &[NodeId]) -> Read<(&'static str, Vec<NodeId>)> {
        const STATEMENTS: [&str; 13] = [
            "check_indices",
            "tile_zero",
            "tile_load",
            "tile_store",
            "tile_dot_bf16",
            "tile_dot_u8u8",
            "tile_dot_u8s8",
            "tile_dot_s8u8",
            "tile_dot_s8s8",
            "tile_mma",
            "tile_box",
            "floordiv",
            "floormod",
        ];
        let Some((first, rest)) = args.split_first() else {
            return Err("a call of an external function without a name".to_owned());
        };
        self.nodes.expect(*first, "ir.StringImm")?;
        let name = self.nodes.child_text(*first, "value")?;
        let own = name.strip_prefix("reflex.").unwrap_or(name);
        let mut names = STATEMENTS.iter().chain(EXTERNAL.iter().map(|(_, name)| name));
        match names.find(|known| **known == own) {
            Some(known) => Ok((known, rest.to_vec())),
            None => Err(format!("a call of the external function `{name:.64}`")),
        }
    }
}
