//! Whether the body of a vectorized loop can run in four lanes of 32 bits.
//!
//! An analysis of what differs between lanes: indices must be ramps, values float32, the 16-bit floats
//! (computed as float32), 32-bit integers, masks, and 8-bit integers that are read, converted, compared and stored. What has
//! no such form (64-bit elements, gathers, functions of the mathematics library, control flow that differs between lanes)
//! runs in order, which means the same.

use reflex_tir::adjacent::adjacent_bytes;
use reflex_tir::{BinOp, Buffer, DType, Expr, ExprKind, For, Intrin, PrimFunc, Stmt, Var};
use rustc_hash::FxHashMap;

use crate::emit::expr::loads;
use crate::position::position;

/// The way in which a value differs between lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Not at all.
    Same,
    /// By a constant from lane to lane: an index.
    Ramp(i64),
    /// In any way: a vector.
    Varying,
}

struct Analysis<'f> {
    func: &'f PrimFunc,
    /// The variables that differ.
    vars: FxHashMap<Var, Form>,
}

/// Whether every statement of the loop's body has a form in four lanes.
pub fn has_vector_form(func: &PrimFunc, l: &For) -> bool {
    let vars = FxHashMap::from_iter([(l.var, Form::Ramp(1))]);
    Analysis { func, vars }.stmt(&l.body).is_some()
}

fn is_lane(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16 | DType::I32 | DType::U32)
        || is_byte(dtype)
}

/// Whether lanes hold an integer extended to 32 bits.
fn is_byte(dtype: DType) -> bool {
    matches!(dtype, DType::I8 | DType::U8)
}

fn is_value(dtype: DType) -> bool {
    is_lane(dtype) || dtype.is_bool()
}

impl Analysis<'_> {
    fn stmt(&mut self, s: &Stmt) -> Option<()> {
        match s {
            Stmt::For(l) => {
                self.same(&l.min)?;
                self.same(&l.extent)?;
                self.stmt(&l.body)
            }
            Stmt::Store { buffer, indices, value } => {
                let at = self.offset(*buffer, indices)?;
                let value = self.expr(value)?;
                match (at, value) {
                    (Form::Same, Form::Same) => Some(()),
                    (Form::Ramp(_), Form::Same) if is_byte(self.func.buffers[*buffer].dtype) => {
                        None
                    }
                    (Form::Ramp(_), Form::Same | Form::Varying) => {
                        is_lane(self.func.buffers[*buffer].dtype).then_some(())
                    }
                    _ => None,
                }
            }
            Stmt::If { cond, then, otherwise } => {
                self.same(cond)?;
                self.stmt(then)?;
                otherwise.as_deref().map_or(Some(()), |s| self.stmt(s))
            }
            Stmt::Let { var, value, body } => {
                match self.expr(value)? {
                    Form::Same => {}
                    form => drop(self.vars.insert(*var, form)),
                }
                self.stmt(body)
            }
            Stmt::Seq(all) => all.iter().try_for_each(|s| self.stmt(s)),
            Stmt::Block(_)
            | Stmt::Allocate { .. }
            | Stmt::While { .. }
            | Stmt::Tile(_)
            | Stmt::CallPacked(_)
            | Stmt::Barrier(_) => None,
        }
    }

    fn varies(&self, e: &Expr) -> bool {
        let mut found = false;
        e.visit(&mut |e| {
            if let ExprKind::Var { var, .. } = e.kind() {
                found |= self.vars.contains_key(var);
            }
        });
        found
    }

    fn same(&self, e: &Expr) -> Option<()> {
        (!self.varies(e)).then_some(())
    }

    /// The form of a value; `None` if it has none.
    fn expr(&self, e: &Expr) -> Option<Form> {
        if !self.varies(e) {
            return Some(Form::Same);
        }
        match e.kind() {
            ExprKind::Int { .. } | ExprKind::Float { .. } => Some(Form::Same),
            ExprKind::Var { var, .. } => self.vars.get(var).copied(),
            ExprKind::Binary { op, a, b } if a.dtype() == DType::I64 => self.index(*op, a, b),
            ExprKind::Binary { op, a, b } => {
                let integer = !a.dtype().is_float();
                let has_form = match op {
                    BinOp::Min | BinOp::Max => true,
                    BinOp::Add | BinOp::Sub | BinOp::Mul => !is_byte(a.dtype()),
                    BinOp::Div | BinOp::FloorDiv | BinOp::FloorMod => !integer,
                    BinOp::Mod => false,
                };
                self.values(has_form.then_some([a, b])?)
            }
            ExprKind::Compare { a, b, .. } if !a.dtype().is_bool() => self.values([a, b]),
            ExprKind::Compare { .. } => None,
            ExprKind::And(a, b) | ExprKind::Or(a, b) => self.values([a, b]),
            ExprKind::Not(a) => self.values([a]),
            ExprKind::Select { cond, on_true, on_false } => self.values([cond, on_true, on_false]),
            ExprKind::Cast { dtype, value } => {
                is_value(*dtype).then_some(())?;
                self.values([value])
            }
            ExprKind::Load { buffer, indices, dtype } => match self.offset(*buffer, indices)? {
                Form::Same => Some(Form::Same),
                Form::Ramp(_) if is_lane(*dtype) => Some(Form::Varying),
                _ => None,
            },
            ExprKind::Call { op, args, dtype } => self.call(*op, args, *dtype),
        }
    }

    /// The form of an operation on values lane by lane.
    fn values<'e>(&self, operands: impl IntoIterator<Item = &'e Expr>) -> Option<Form> {
        for operand in operands {
            is_value(operand.dtype()).then_some(())?;
            match self.expr(operand)? {
                // A scalar of 8 bits is widened as a bool is.
                Form::Same if is_byte(operand.dtype()) => return None,
                Form::Same | Form::Varying => {}
                Form::Ramp(_) => return None,
            }
        }
        Some(Form::Varying)
    }

    fn index(&self, op: BinOp, a: &Expr, b: &Expr) -> Option<Form> {
        let stride = |form: Form| match form {
            Form::Same => Some(0),
            Form::Ramp(stride) => Some(stride),
            Form::Varying => None,
        };
        let (m, n) = (stride(self.expr(a)?)?, stride(self.expr(b)?)?);
        let stride = match op {
            BinOp::Add => m.wrapping_add(n),
            BinOp::Sub => m.wrapping_sub(n),
            BinOp::Mul if n == 0 => m.wrapping_mul(b.as_int()?),
            BinOp::Mul if m == 0 => n.wrapping_mul(a.as_int()?),
            _ => return None,
        };
        Some(if stride == 0 { Form::Same } else { Form::Ramp(stride) })
    }

    fn offset(&self, buffer: Buffer, indices: &[Expr]) -> Option<Form> {
        let form = self.expr(&position(self.func, buffer, indices))?;
        (form != Form::Varying).then_some(form)
    }

    fn call(&self, op: Intrin, args: &[Expr], dtype: DType) -> Option<Form> {
        match op {
            Intrin::IfThenElse => {
                let guards = args[1..].iter().any(loads);
                if guards {
                    self.same(&args[0])?;
                }
                self.values(args)
            }
            Intrin::Pack4x8 => match adjacent_bytes(args) {
                Some((buffer, indices)) => {
                    let form = self.offset(buffer, indices)?;
                    (form == Form::Ramp(4)).then_some(Form::Varying)
                }
                None => self.values(args),
            },
            Intrin::Shl | Intrin::Shr | Intrin::BitNot if is_byte(args[0].dtype()) => None,
            Intrin::Shl | Intrin::Shr => {
                self.same(&args[1])?;
                self.values(&args[..1])
            }
            Intrin::Reinterpret => {
                let plain = |dtype: DType| matches!(dtype, DType::F32 | DType::I32 | DType::U32);
                (plain(dtype) && plain(args[0].dtype())).then_some(())?;
                self.values(args)
            }
            Intrin::Fma
            | Intrin::Sqrt
            | Intrin::Floor
            | Intrin::Ceil
            | Intrin::Trunc
            | Intrin::Round
            | Intrin::Abs
            | Intrin::IsNan
            | Intrin::IsInf
            | Intrin::BitAnd
            | Intrin::BitOr
            | Intrin::BitXor
            | Intrin::BitNot
            | Intrin::PairBf16
            | Intrin::DotI8 { .. }
            | Intrin::DotI16 => self.values(args),
            Intrin::Prefetch => self.values(&args[..1]),
            Intrin::Exp
            | Intrin::Log
            | Intrin::Sin
            | Intrin::Cos
            | Intrin::Tan
            | Intrin::Asin
            | Intrin::Acos
            | Intrin::Atan
            | Intrin::Sinh
            | Intrin::Cosh
            | Intrin::Tanh
            | Intrin::Asinh
            | Intrin::Acosh
            | Intrin::Atanh
            | Intrin::Erf
            | Intrin::Pow
            | Intrin::DotBf16 => None,
        }
    }
}
