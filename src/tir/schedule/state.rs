//! The function being scheduled, and what every primitive asks of it.

use std::collections::HashMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::tree;
use crate::arith::Analyzer;
use crate::{BinOp, Block, Buffer, Expr, ExprKind, For, Param, PrimFunc, Stmt, Var};

/// A refusal: the primitive, its object and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{primitive} of `{at}` refused: {why}")]
pub struct ScheduleError {
    /// The primitive.
    pub primitive: &'static str,
    /// The loop, block or buffer it was asked for.
    pub at: String,
    /// The condition that is not shown to hold.
    pub why: String,
}

/// The one element that every instance of a block stores to.
#[derive(Clone, Debug)]
pub(super) struct InjectiveStore {
    pub buffer: Buffer,
    pub indices: Vec<Expr>,
}

/// A function being scheduled.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub(super) func: PrimFunc,
    /// Intermediates with elements that nothing writes.
    pub(super) padded: FxHashSet<Buffer>,
    /// Blocks shown to store elsewhere in every instance, by name.
    pub(super) injective: HashMap<String, InjectiveStore>,
    /// The primitives applied, as text.
    pub(super) steps: Vec<String>,
    /// Labels of loops that share their names with others.
    pub(super) labels: FxHashMap<Var, String>,
}

impl Schedule {
    /// Starts from `func`.
    pub fn new(func: PrimFunc) -> Schedule {
        let labels = tree::labels(&func);
        let (padded, injective) = (FxHashSet::default(), HashMap::new());
        Schedule { func, padded, injective, steps: vec![], labels }
    }

    /// The function as scheduled so far.
    pub fn func(&self) -> &PrimFunc {
        &self.func
    }

    /// The scheduled function.
    pub fn into_func(self) -> PrimFunc {
        self.func
    }

    /// The block of this name.
    pub fn get_block(&self, name: &str) -> Result<&Block, ScheduleError> {
        match tree::path_to_block(&self.func.body, name).as_deref() {
            Some([.., Stmt::Block(block)]) => Ok(block),
            _ => Err(self.refuse("get_block", name, "there is no such block")),
        }
    }

    /// The names of all blocks in program order.
    pub fn blocks(&self) -> Vec<String> {
        let mut names = vec![];
        self.func.body.visit(&mut |s| {
            if let Stmt::Block(b) = s {
                names.push(b.name.clone());
            }
        });
        names
    }

    /// The loops around a block, outermost first, up to an enclosing block if there is one.
    pub fn get_loops(&self, block: &str) -> Result<Vec<Var>, ScheduleError> {
        let Some(path) = tree::path_to_block(&self.func.body, block) else {
            return Err(self.refuse("get_loops", block, "there is no such block"));
        };
        let mut loops = vec![];
        for stmt in &path[..path.len() - 1] {
            match stmt {
                Stmt::For(l) => loops.push(l.var),
                Stmt::Block(_) => loops.clear(),
                _ => {}
            }
        }
        Ok(loops)
    }

    /// The loop of a variable.
    pub fn get_loop(&self, var: Var) -> Result<&For, ScheduleError> {
        match tree::path_to_loop(&self.func.body, var).as_deref() {
            Some([.., Stmt::For(l)]) => Ok(l),
            _ => Err(self.refuse_loop("get_loop", var, "there is no such loop")),
        }
    }

    /// The constant extent of a loop, if it has one.
    pub fn extent(&self, var: Var) -> Result<Option<i64>, ScheduleError> {
        let path = self.path_to_loop("extent", var)?;
        let extent = &self.get_loop(var)?.extent;
        if let Some(n) = extent.as_int() {
            return Ok(Some(n));
        }
        Ok(self.facts(&path[..path.len() - 1]).simplify(extent).as_int())
    }

    pub(super) fn refuse(
        &self,
        primitive: &'static str,
        at: &str,
        why: impl Into<String>,
    ) -> ScheduleError {
        ScheduleError { primitive, at: at.to_string(), why: why.into() }
    }

    pub(super) fn refuse_loop(
        &self,
        primitive: &'static str,
        at: Var,
        why: impl Into<String>,
    ) -> ScheduleError {
        let name = self.func.vars.get(at).map_or("?", |v| &v.name);
        self.refuse(primitive, name, why)
    }

    pub(super) fn path_to_loop(
        &self,
        primitive: &'static str,
        var: Var,
    ) -> Result<Vec<&Stmt>, ScheduleError> {
        if let Some(why) = fixed(&self.func) {
            return Err(self.refuse_loop(primitive, var, why));
        }
        tree::path_to_loop(&self.func.body, var)
            .ok_or_else(|| self.refuse_loop(primitive, var, "there is no such loop"))
    }

    /// The statements from the body to the loop of `var`, which lies in no block: what moves there
    /// would change the regions of that block.
    pub(super) fn path_to_free_loop(
        &self,
        primitive: &'static str,
        var: Var,
    ) -> Result<Vec<&Stmt>, ScheduleError> {
        let path = self.path_to_loop(primitive, var)?;
        let block = path.iter().find_map(|stmt| match stmt {
            Stmt::Block(block) => Some(&block.name),
            _ => None,
        });
        match block {
            Some(name) => {
                let why = format!("the loop lies inside block `{name}`");
                Err(self.refuse_loop(primitive, var, why))
            }
            None => Ok(path),
        }
    }

    pub(super) fn path_to_block(
        &self,
        primitive: &'static str,
        name: &str,
    ) -> Result<Vec<&Stmt>, ScheduleError> {
        if let Some(why) = fixed(&self.func) {
            return Err(self.refuse(primitive, name, why));
        }
        tree::path_to_block(&self.func.body, name)
            .ok_or_else(|| self.refuse(primitive, name, "there is no such block"))
    }

    /// Refuses blocks inside of other blocks or under conditions.
    pub(super) fn require_movable(
        &self,
        primitive: &'static str,
        name: &str,
    ) -> Result<(), ScheduleError> {
        let path = self.path_to_block(primitive, name)?;
        for stmt in &path[..path.len() - 1] {
            match stmt {
                Stmt::Block(b) => {
                    let why = format!("it lies inside block `{}`", b.name);
                    return Err(self.refuse(primitive, name, why));
                }
                Stmt::If { .. } | Stmt::While { .. } => {
                    return Err(self.refuse(primitive, name, "it lies under a condition"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The ranges of the variables bound by `path`, and facts about shapes.
    pub(super) fn facts(&self, path: &[&Stmt]) -> Analyzer {
        let mut facts = shape_facts(&self.func);
        for stmt in path {
            match stmt {
                Stmt::For(l) => facts.bind_loop(l),
                Stmt::Block(b) => {
                    for iter in &b.iters {
                        facts.bind(iter.var, Expr::i64(0), iter.extent.clone());
                    }
                }
                _ => {}
            }
        }
        facts
    }
}

/// The reason why no primitive changes a function, if there is one.
pub(crate) fn fixed(func: &PrimFunc) -> Option<&'static str> {
    func.calls_packed().then_some("the kernel calls packed functions, and runs as it is written")
}

/// The facts that dimensions of parameters, and of them the variables in them, are not negative.
pub(super) fn shape_facts(func: &PrimFunc) -> Analyzer {
    let mut facts = Analyzer::new();
    for var in crate::abi::scalar_vars(func) {
        if !func.params.contains(&Param::Scalar(var)) {
            facts.at_least(var, 0);
        }
    }
    for extent in func.buffer_params().flat_map(|b| &func.buffers[b].shape) {
        if let Some((var, min)) = least(extent, 0) {
            facts.at_least(var, min);
        }
    }
    facts
}

/// The only variable of `e` and the least value for which `e >= min`, where `e` grows with it.
fn least(e: &Expr, min: i64) -> Option<(Var, i64)> {
    let ExprKind::Binary { op, a, b } = e.kind() else { return Some((e.as_var()?, min)) };
    let (of, c) = match (op, a.as_int(), b.as_int()) {
        (_, None, Some(c)) => (a, c),
        (BinOp::Add | BinOp::Mul, Some(c), None) => (b, c),
        _ => return None,
    };
    let min = match op {
        BinOp::Add => min.checked_sub(c)?,
        BinOp::Sub => min.checked_add(c)?,
        BinOp::Mul if c > 0 => min.div_euclid(c) + i64::from(min.rem_euclid(c) != 0),
        BinOp::FloorDiv if c > 0 => min.checked_mul(c)?,
        _ => return None,
    };
    least(of, min)
}
