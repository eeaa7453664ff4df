//! Asynchronous copies, barrier objects and bulk copies.

use crate::mem::window::in_block;
use crate::op::{Addr, Bulk, Kind, Mbarrier, Op, Src};
use crate::parse::tree::Operand;

use super::context::{Context, Result};
use super::modifiers::Modifiers;

/// Modifiers of order and space that have one meaning here.
const SCOPES: [&str; 9] = [
    "release",
    "acquire",
    "relaxed",
    "cta",
    "cluster",
    "shared",
    "shared::cta",
    "shared::cluster",
    "b64",
];

impl<'a> Context<'_, 'a> {
    /// Decodes an instruction of this family; false for others.
    pub fn asynchronous(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<bool> {
        self.kind = Kind::Async;
        if m.name == "mbarrier" {
            self.mbarrier(m, o)?;
            return Ok(true);
        }
        if m.name == "mapa" {
            self.map_shared(m, o)?;
            return Ok(true);
        }
        if m.name != "cp" || !m.take("async") {
            return Ok(false);
        }
        if m.take("bulk") {
            self.bulk(m, o)?;
            return Ok(true);
        }
        self.thread_copy(m, o)
    }

    /// `mapa`: the address of a place in another block's shared memory.
    fn map_shared(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        self.needs_hopper("mapa")?;
        let (true, Some(_), [dst, at, block]) = (m.take("shared::cluster"), m.one_of(&["u32"]), o)
        else {
            return self.error("this form of mapa is not supported");
        };
        let (dst, at, block) = (self.dst(dst)?, self.src(at)?, self.src(block)?);
        self.emit(Op::Alu {
            f: |at, block, _| in_block(at, block),
            dst,
            src: [at, block, Src::Imm(0)],
        })
    }

    fn thread_copy(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<bool> {
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

    fn mbarrier(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        self.kernel.fine_order = true;
        m.ignore(&SCOPES);
        let (expects, parity) = (m.take("expect_tx"), m.take("parity"));
        let name = m.one_of(&["init", "inval", "arrive", "test_wait", "try_wait"]);
        let (at, what) = match (name, o) {
            (Some("init"), [at, count]) => (at, Mbarrier::Init { count: self.src(count)? }),
            (Some("inval"), [at]) => (at, Mbarrier::Invalidate),
            (None, [at, bytes]) if expects => (at, Mbarrier::Expect { bytes: self.src(bytes)? }),
            (Some("arrive"), [state, at, rest @ ..]) if rest.len() <= 1 => {
                let state = match state {
                    Operand::Name("_", 0) => None,
                    state => Some(self.dst(state)?),
                };
                let mut given = [Src::Imm(1), Src::Imm(0)];
                if let [operand] = rest {
                    given[usize::from(expects)] = self.src(operand)?;
                }
                (at, Mbarrier::Arrive { state, count: given[0], expect: given[1] })
            }
            (Some(name @ ("test_wait" | "try_wait")), [dst, at, phase, ..]) => {
                let (dst, phase) = (self.dst(dst)?, self.src(phase)?);
                (at, Mbarrier::Wait { dst, phase, parity, blocks: name == "try_wait" })
            }
            _ => return self.error("this form of mbarrier is not supported"),
        };
        let at = self.addr(at)?;
        self.emit(Op::Mbarrier { at, what })
    }

    fn bulk(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        self.needs_hopper("cp.async.bulk")?;
        self.kernel.fine_order = true;
        self.kernel.async_proxy = true;
        m.ignore(&["tile", "bulk_group", "mbarrier::complete_tx::bytes", "read"]);
        let (tensor, multicast) = (m.take("tensor"), m.take("multicast::cluster"));
        if tensor {
            m.ignore(&["1d", "2d", "3d", "4d", "5d"]);
        }
        let to_shared = m.first_is(&["shared::cluster", "shared::cta"]);
        let control = m.one_of(&["commit_group", "wait_group"]);
        m.ignore(&["shared::cluster", "shared::cta", "global"]);
        let bulk = match (control, o) {
            (Some("commit_group"), []) => Bulk::Commit,
            (Some("wait_group"), [Operand::Integer(left)]) => Bulk::Wait { left: *left as u32 },
            (None, [to, map, barrier, mask @ ..])
                if tensor && to_shared && mask.len() == usize::from(multicast) =>
            {
                let (map, coordinates) = self.tensor(map)?;
                let (to, barrier) = (self.addr(to)?, self.addr(barrier)?);
                let multicast = mask.first().map(|mask| self.src(mask)).transpose()?;
                Bulk::Load { to, map, coordinates, barrier, multicast }
            }
            (None, [map, from]) if tensor && !to_shared && !multicast => {
                let (map, coordinates) = self.tensor(map)?;
                Bulk::Store { from: self.addr(from)?, map, coordinates }
            }
            (None, [to, from, bytes, barrier]) if !tensor && to_shared && !multicast => {
                let (to, from) = (self.addr(to)?, self.addr(from)?);
                let (bytes, barrier) = (self.src(bytes)?, self.addr(barrier)?);
                Bulk::Copy { to, from, bytes, barrier }
            }
            _ => return self.error("this form of cp.async.bulk is not supported"),
        };
        self.emit(Op::Bulk(Box::new(bulk)))
    }

    /// `[map, {x, y}]`.
    fn tensor(&mut self, operand: &Operand<'a>) -> Result<(Addr, Box<[Src]>)> {
        match operand {
            Operand::Address(map, rest) => match rest.as_slice() {
                [Operand::Vector(coordinates)] if (1..=5).contains(&coordinates.len()) => {
                    let map = self.addr_of(map)?;
                    Ok((map, self.sources(coordinates)?.into_boxed_slice()))
                }
                _ => self.error("expected coordinates behind the tensor map"),
            },
            other => self.error(format!("expected a tensor map, found {other:?}")),
        }
    }
}
