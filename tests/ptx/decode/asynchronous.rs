//! Asynchronous copies.

use crate::op::{Kind, Op, Src};
use crate::parse::tree::Operand;

use super::context::{Context, Result};
use super::modifiers::Modifiers;

impl<'a> Context<'_, 'a> {
    /// Decodes an instruction of this family; false for others.
    pub fn asynchronous(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<bool> {
        self.kind = Kind::Async;
        if m.name != "cp" || !m.take("async") {
            return Ok(false);
        }
        match (m.one_of(&["commit_group", "wait_group", "wait_all", "ca", "cg"]), o) {
            (Some("commit_group"), []) => self.emit(Op::AsyncCommit)?,
            (Some("wait_all"), []) => self.emit(Op::AsyncWait { left: None })?,
            (Some("wait_group"), [Operand::Integer(left)]) => {
                self.emit(Op::AsyncWait { left: Some(*left as u32) })?;
            }
            (Some("ca" | "cg"), [to, from, Operand::Integer(bytes), rest @ ..]) => {
                m.ignore(&["L2::64B", "L2::128B", "L2::256B", "global"]);
                if m.one_of(&["shared", "shared::cta"]).is_none() {
                    return self.error("cp.async without a destination in shared memory");
                }
                if !matches!(bytes, 4 | 8 | 16) {
                    return self.error(format!("cp.async of {bytes} bytes"));
                }
                let (to, from) = (self.addr(to)?, self.addr(from)?);
                let read: Option<Src> = match rest {
                    [] => None,
                    [size] => Some(self.src(size)?),
                    _ => return self.error("wrong number of operands"),
                };
                self.emit(Op::AsyncCopy { bytes: *bytes as u8, to, from, read })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}
