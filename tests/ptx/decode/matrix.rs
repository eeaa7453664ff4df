//! Matrix instructions.

use crate::num::convert::format_of;
use crate::op::{Collective, GroupMatrix, Kind, Op, Src, Warpgroup};
use crate::parse::tree::Operand;

use super::context::{Context, Result};
use super::modifiers::Modifiers;

/// All lanes.
const FULL: Src = Src::Imm(0xffff_ffff);

impl<'a> Context<'_, 'a> {
    /// Decodes an instruction of this family; false for others.
    pub fn matrix(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<bool> {
        self.kind = Kind::Matrix;
        let what = match m.name {
            "ldmatrix" | "stmatrix" => self.move_matrix(m, o)?,
            "mma" => self.mma(m, o)?,
            "wgmma" => {
                let what = self.warpgroup(m, o)?;
                self.emit(Op::Warpgroup(Box::new(what)))?;
                return Ok(true);
            }
            _ => return Ok(false),
        };
        self.emit(Op::Collective { mask: FULL, what })?;
        Ok(true)
    }

    fn move_matrix(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<Collective> {
        m.ignore(&["sync", "aligned", "m8n8", "shared", "shared::cta", "b16"]);
        let transposed = m.take("trans");
        let count = match m.one_of(&["x1", "x2", "x4"]) {
            Some("x1") => 1,
            Some("x2") => 2,
            Some(_) => 4,
            None => return self.error(format!("{} without a count", m.name)),
        };
        let [first, second] = o else {
            return self.error("expected two operands");
        };
        let what = if m.name == "ldmatrix" {
            let (dst, addr) = (self.dst_registers(first)?, self.addr(second)?);
            Collective::LoadMatrix { transposed, dst, addr }
        } else {
            let (addr, src) = (self.addr(first)?, self.src_vector(second)?.into_boxed_slice());
            Collective::StoreMatrix { transposed, src, addr }
        };
        let registers = match &what {
            Collective::LoadMatrix { dst, .. } => dst.len(),
            Collective::StoreMatrix { src, .. } => src.len(),
            _ => 0,
        };
        if registers != count {
            return self.error("the vector does not fit the count of matrices");
        }
        Ok(what)
    }

    fn mma(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<Collective> {
        m.ignore(&["sync", "aligned", "row", "col"]);
        let k = match m.one_of(&["m16n8k8", "m16n8k16"]) {
            Some("m16n8k8") => 8,
            Some(_) => 16,
            None => return self.error("mma of a shape that is not supported"),
        };
        let (c, b, a, d) = (m.last(), m.last(), m.last(), m.last());
        let format = match (d, a, b, c) {
            (Some("f32"), Some(a @ ("f16" | "bf16")), Some(b), Some("f32")) if a == b => {
                format_of(a)
            }
            _ => None,
        };
        let (Some(format), [d, a, b, c]) = (format, o) else {
            return self.error("mma of types that are not supported");
        };
        let d = self.dst_registers(d)?;
        let [a, b, c] = [self.src_vector(a)?, self.src_vector(b)?, self.src_vector(c)?];
        if (d.len(), a.len(), b.len(), c.len()) != (4, k as usize / 4, k as usize / 8, 4) {
            return self.error("the vectors do not fit the shape");
        }
        let [a, b, c] = [a, b, c].map(Vec::into_boxed_slice);
        Ok(Collective::Mma { format, k, d, a, b, c })
    }

    fn warpgroup(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<Warpgroup> {
        self.needs_hopper("wgmma")?;
        self.kernel.fine_order = true;
        self.kernel.async_proxy = true;
        m.ignore(&["sync", "aligned"]);
        match (m.one_of(&["fence", "commit_group", "wait_group", "mma_async"]), o) {
            (Some("fence"), []) => Ok(Warpgroup::Fence),
            (Some("commit_group"), []) => Ok(Warpgroup::Commit),
            (Some("wait_group"), [Operand::Integer(left)]) => {
                Ok(Warpgroup::Wait { left: *left as u32 })
            }
            (Some("mma_async"), [d, a, b, scale, rest @ ..]) => {
                let (format, columns) = self.group_shape(m)?;
                let d = self.dst_registers(d)?;
                let a = match a {
                    Operand::Vector(parts) => GroupMatrix::Registers(self.sources(parts)?.into()),
                    descriptor => GroupMatrix::Shared(self.src(descriptor)?),
                };
                let (b, scale) = (self.src(b)?, self.src(scale)?);
                let in_registers = matches!(&a, GroupMatrix::Registers(parts) if parts.len() != 4);
                if d.len() != columns / 2 || in_registers {
                    return self.error("the vectors do not fit the shape");
                }
                let numbers = rest.iter().map(|operand| match operand {
                    Operand::Integer(value) => Some(*value as i64),
                    _ => None,
                });
                let numbers = numbers.collect::<Option<Vec<i64>>>();
                let (signs, turns) = match (&a, numbers.as_deref()) {
                    (GroupMatrix::Shared(_), Some([x, y, s, t])) => ([*x, *y], [*s, *t]),
                    (GroupMatrix::Registers(_), Some([x, y, t])) => ([*x, *y], [0, *t]),
                    _ => return self.error("this form of wgmma is not supported"),
                };
                if signs.iter().any(|s| s.abs() != 1) || turns.iter().any(|t| *t & !1 != 0) {
                    return self.error("wgmma takes signs of 1 or -1 and transposes of 0 or 1");
                }
                let (negate, transposed) = (signs.map(|s| s == -1), turns.map(|t| t == 1));
                Ok(Warpgroup::Mma { format, d, a, b, scale, negate, transposed })
            }
            _ => self.error("this form of wgmma is not supported"),
        }
    }

    /// The format of the products and the count of columns.
    fn group_shape(
        &mut self,
        m: &mut Modifiers<'a>,
    ) -> Result<(crate::num::format::Format, usize)> {
        let (b, a, d) = (m.last(), m.last(), m.last());
        let shape = m.first().unwrap_or("");
        let columns = shape.strip_prefix("m64n").and_then(|rest| rest.strip_suffix("k16"));
        let columns = columns.and_then(|columns| columns.parse::<usize>().ok());
        let columns = columns.filter(|n| n.is_multiple_of(8) && (8..=256).contains(n));
        match (d, a, b, columns) {
            (Some("f32"), Some(a @ ("f16" | "bf16")), Some(b), Some(columns)) if a == b => {
                match format_of(a) {
                    Some(format) => Ok((format, columns)),
                    None => self.error("unknown type"),
                }
            }
            _ => self.error(format!("wgmma of this shape or these types: {shape}")),
        }
    }
}
