//! Branches, barriers and collectives of a warp.

use crate::op::{BarrierResult, ClusterBarrier, Collective, Kind, Op, Shuffle, Src, Vote};
use crate::parse::tree::Operand;

use super::context::{Context, Result};
use super::memory::reduction;
use super::modifiers::Modifiers;

impl<'a> Context<'_, 'a> {
    /// Decodes an instruction of this family; false for others.
    pub fn control(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<bool> {
        self.kind = Kind::Control;
        match m.name {
            "bra" | "brx" => self.branch(m, o)?,
            "ret" | "exit" => {
                m.ignore(&["uni"]);
                if m.name == "ret" { self.leave()? } else { self.emit(Op::Exit)? }
            }
            "trap" => self.emit(Op::Trap)?,
            "nanosleep" | "pmevent" | "brkpt" => {
                while m.first().is_some() {}
                self.emit(Op::Nop)?;
            }
            "bar" | "barrier" => {
                self.kind = Kind::Barrier;
                self.barrier(m, o)?;
            }
            "griddepcontrol" | "setmaxnreg" => {
                m.ignore(&["wait", "launch_dependents", "inc", "dec", "sync", "aligned", "u32"]);
                self.emit(Op::Nop)?;
            }
            "membar" | "fence" => {
                self.kind = Kind::Barrier;
                if m.take("proxy") && m.take("async") {
                    m.ignore(&["shared::cta", "shared::cluster", "global"]);
                    self.emit(Op::ProxyFence)?;
                    return Ok(true);
                }
                m.ignore(&[
                    "cta", "gl", "sys", "gpu", "cluster", "sc", "acq_rel", "proxy", "async",
                ]);
                m.ignore(&[
                    "mbarrier_init",
                    "release",
                    "acquire",
                    "shared::cta",
                    "alias",
                    "global",
                ]);
                self.emit(Op::Nop)?;
            }
            "shfl" | "vote" | "match" | "redux" | "activemask" | "elect" => {
                self.kind = Kind::Collective;
                self.collective(m, o)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn branch(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        m.ignore(&["uni"]);
        let indexed = m.name == "brx" && m.take("idx");
        match o {
            [Operand::Name(label, 0)] if m.name == "bra" => self.jump(label),
            [index, Operand::Name(name, 0)] if indexed => {
                let index = self.src(index)?;
                let Some(table) = self.table(name) else {
                    return self.error(format!("unknown list of targets {name}"));
                };
                self.emit(Op::BranchTable { table, index })
            }
            _ => self.error("wrong operands of a branch"),
        }
    }

    fn barrier(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        m.ignore(&["cta", "aligned"]);
        if m.take("cluster") {
            return self.cluster_barrier(m, o);
        }
        if m.take("warp") {
            m.ignore(&["sync"]);
            let [mask] = o else {
                return self.error("expected a mask");
            };
            self.kernel.fine_order = true;
            let mask = self.src(mask)?;
            return self.emit(Op::Collective { mask, what: Collective::WarpBarrier });
        }
        if m.take("red") {
            return self.barrier_reduction(m, o);
        }
        let arrive = m.take("arrive");
        if !arrive && !m.take("sync") {
            return self.error(format!("instruction {}: neither sync nor arrive", m.name));
        }
        let sources = self.sources(o)?;
        let (id, count) = match sources[..] {
            [id] if !arrive => (id, None),
            [id, count] => (id, Some(count)),
            _ => return self.error("wrong number of operands"),
        };
        self.kernel.fine_order |= arrive || count.is_some() || id != Src::Imm(0);
        self.emit(Op::Barrier { id, count, arrive, result: None })
    }

    fn cluster_barrier(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        self.needs_hopper("barrier.cluster")?;
        self.kernel.fine_order = true;
        let half = m.one_of(&["arrive", "wait"]);
        let release = !m.take("relaxed");
        m.ignore(&["release", "acquire", "aligned"]);
        match (half, o) {
            (Some("arrive"), []) => {
                self.emit(Op::ClusterBarrier(ClusterBarrier::Arrive { release }))
            }
            (Some(_), []) => self.emit(Op::ClusterBarrier(ClusterBarrier::Wait)),
            _ => self.error("this form of barrier.cluster is not supported"),
        }
    }

    fn barrier_reduction(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        let how = match m.one_of(&["popc", "and", "or"]) {
            Some("popc") => BarrierResult::Count,
            Some("and") => BarrierResult::All,
            _ => BarrierResult::Any,
        };
        m.ignore(&["u32", "pred"]);
        let (d, id, count, predicate) = match o {
            [d, id, p] => (d, id, None, p),
            [d, id, count, p] => (d, id, Some(self.src(count)?), p),
            _ => return self.error("wrong number of operands"),
        };
        let (dst, id) = (self.dst(d)?, self.src(id)?);
        let predicate = match self.predicate(predicate)? {
            (src, false) => src,
            (_, true) => return self.error("a negated predicate is not supported here"),
        };
        self.kernel.fine_order |= count.is_some();
        self.emit(Op::Barrier { id, count, arrive: false, result: Some((how, dst, predicate)) })
    }

    fn collective(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        if m.name == "activemask" {
            m.ignore(&["b32"]);
            let [d] = o else {
                return self.error("expected one operand");
            };
            let dst = self.dst(d)?;
            return self.emit(Op::ActiveMask { dst });
        }
        if !m.take("sync") {
            return self.error(format!("instruction {}: only the form .sync is supported", m.name));
        }
        let Some((mask, rest)) = o.split_last() else {
            return self.error("expected a mask");
        };
        let mask = self.src(mask)?;
        let what = match m.name {
            "shfl" => self.shuffle(m, rest)?,
            "vote" => self.vote(m, rest)?,
            "match" => self.matching(m, rest)?,
            "redux" => self.reduce(m, rest)?,
            "elect" => {
                let [d] = rest else {
                    return self.error("expected a register and a predicate");
                };
                let (dst, Some(elected)) = self.dst_pair(d)? else {
                    return self.error("expected a register and a predicate");
                };
                Collective::Elect { dst, elected }
            }
            _ => return self.error(format!("unknown instruction {}", m.name)),
        };
        self.emit(Op::Collective { mask, what })
    }

    fn shuffle(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<Collective> {
        m.ignore(&["b32"]);
        let mode = match m.one_of(&["up", "down", "bfly", "idx"]) {
            Some("up") => Shuffle::Up,
            Some("down") => Shuffle::Down,
            Some("bfly") => Shuffle::Butterfly,
            Some(_) => Shuffle::Index,
            None => return self.error("shfl without a mode"),
        };
        let [d, value, lane, clamp] = o else {
            return self.error("wrong number of operands");
        };
        let (dst, inside) = self.dst_pair(d)?;
        let (value, lane, clamp) = (self.src(value)?, self.src(lane)?, self.src(clamp)?);
        Ok(Collective::Shuffle { mode, dst, inside, value, lane, clamp })
    }

    /// `d` or `d|p`.
    fn dst_pair(&mut self, operand: &Operand<'a>) -> Result<(u32, Option<u32>)> {
        match operand {
            Operand::Pair(d, p) => {
                let dst = self.dst(&Operand::Name(d, 0))?;
                Ok((dst, Some(self.dst(&Operand::Name(p, 0))?)))
            }
            single => Ok((self.dst(single)?, None)),
        }
    }

    fn vote(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<Collective> {
        m.ignore(&["pred", "b32"]);
        let mode = match m.one_of(&["all", "any", "uni", "ballot"]) {
            Some("all") => Vote::All,
            Some("any") => Vote::Any,
            Some("uni") => Vote::Uniform,
            Some(_) => Vote::Ballot,
            None => return self.error("vote without a mode"),
        };
        let [d, p] = o else {
            return self.error("wrong number of operands");
        };
        let (dst, (predicate, negated)) = (self.dst(d)?, self.predicate(p)?);
        Ok(Collective::Vote { mode, dst, predicate, negated })
    }

    fn matching(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<Collective> {
        let bits = if m.one_of(&["b32", "b64"]) == Some("b64") { 64 } else { 32 };
        let all = m.take("all");
        if !all && !m.take("any") {
            return self.error("match without a mode");
        }
        let [d, value] = o else {
            return self.error("wrong number of operands");
        };
        let (dst, equal) = self.dst_pair(d)?;
        let value = self.src(value)?;
        Ok(Collective::Match { all, dst, equal, value, bits })
    }

    fn reduce(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<Collective> {
        let signed = m.one_of(&["s32", "u32", "b32"]) == Some("s32");
        let name = m.one_of(&["add", "min", "max", "and", "or", "xor"]);
        let ([d, value], Some(with)) = (o, name.and_then(|name| reduction(name, signed))) else {
            return self.error("this form of redux is not supported");
        };
        let (dst, value) = (self.dst(d)?, self.src(value)?);
        Ok(Collective::Reduce { with, dst, value })
    }
}
