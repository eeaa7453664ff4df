//! Layout transformation of a buffer.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::access;
use super::regions::delinearise;
use super::state::{Schedule, ScheduleError, shape_facts};
use crate::arith::Analyzer;
use crate::builder::FuncBuilder;
use crate::{Block, BlockIter, Buffer, DType, Expr, IterKind, PrimFunc, Region, Stmt, Var};

/// An index map: new indices of an element from old ones.
pub type IndexMap<'a> = &'a dyn Fn(&[Expr]) -> Vec<Expr>;

/// A buffer, its new shape, and the map of its indices.
pub type Relayout<'a> = (Buffer, Vec<Expr>, IndexMap<'a>);

impl Schedule {
    /// Every access `X[i...]` becomes `X[map(i...)]` and the buffer gets `shape`; elements of the
    /// new shape that `map` does not reach are padding, never read or written here.
    ///
    /// Needs a map that sends different elements to different indices inside the new shape. For a
    /// parameter this changes what the caller passes: [`packer`] makes the function that
    /// rearranges an input (a weight, once), and the caller's types must follow.
    pub fn transform_layout(
        &mut self,
        buffer: Buffer,
        shape: Vec<Expr>,
        map: IndexMap<'_>,
    ) -> Result<(), ScheduleError> {
        self.transform_layouts(vec![(buffer, shape, map)])
    }

    /// [`Schedule::transform_layout`] of several buffers, each once: the function is simplified once.
    pub fn transform_layouts(&mut self, all: Vec<Relayout<'_>>) -> Result<(), ScheduleError> {
        if all.is_empty() {
            return Ok(());
        }
        let facts = shape_facts(&self.func);
        let mut changed: Vec<Buffer> = vec![];
        for (buffer, shape, map) in &all {
            let data = self.func.buffers[*buffer].clone();
            if changed.contains(buffer) {
                return Err(self.refuse("transform_layout", &data.name, "given twice"));
            }
            changed.push(*buffer);
            let old: Vec<Var> = data.shape.iter().map(|_| self.func.new_var("i")).collect();
            check(&facts, &old, &data.shape, shape, map)
                .map_err(|why| self.refuse("transform_layout", &data.name, why))?;
        }
        let size = |shape: &[Expr]| shape.iter().fold(Expr::i64(1), |n, d| n * d.clone());
        let mut body = std::mem::replace(&mut self.func.body, Stmt::nop());
        let mut steps = vec![];
        for (buffer, shape, map) in all {
            let old = std::mem::replace(&mut self.func.buffers[buffer].shape, shape);
            let new_index = |at: &[Expr]| match at {
                [position] if old.len() != 1 => map(&delinearise(position, &old)),
                _ => map(at),
            };
            body = body.map_accesses(buffer, buffer, &new_index);
            let data = &self.func.buffers[buffer];
            if !facts.prove(&size(&data.shape).equal(size(&old))) {
                self.padded.insert(buffer);
            }
            let to: Vec<String> = data.shape.iter().map(|n| self.text(n)).collect();
            steps.push(format!("transform_layout {} -> [{}]", data.name, to.join(", ")));
        }
        let body = shape_facts(&self.func).simplify_stmt(&body);
        self.func.body = self.refreshed(&body, &changed);
        let last = steps.pop();
        self.steps.extend(steps);
        last.into_iter().for_each(|step| self.note(step));
        Ok(())
    }
}

/// Different elements must go to different indices, all inside the new shape.
fn check(
    facts: &Analyzer,
    old: &[Var],
    from: &[Expr],
    to: &[Expr],
    map: IndexMap<'_>,
) -> Result<(), String> {
    let mut facts = facts.clone();
    for (var, extent) in old.iter().zip(from) {
        facts.bind(*var, Expr::i64(0), extent.clone());
    }
    let point: Vec<Expr> = old.iter().map(|v| Expr::var(*v)).collect();
    let image = map(&point);
    if image.len() != to.len() {
        return Err(format!("the map gives {} indices for {} dimensions", image.len(), to.len()));
    }
    for (at, (index, extent)) in image.iter().zip(to).enumerate() {
        let inside = index.clone().ge(0).and(index.clone().lt(extent.clone()));
        if !facts.prove(&inside) {
            return Err(format!("index {at} may lie outside the new shape"));
        }
    }
    let free: FxHashSet<Var> = old.iter().copied().collect();
    match old.iter().position(|v| !access::determines(&facts, &image, *v, &free)) {
        Some(at) => Err(format!("two elements that differ in dimension {at} may collide")),
        None => Ok(()),
    }
}

/// The function `(source, packed)` that arranges a tensor of shape `from` for a function whose
/// buffer was transformed by the same `to` and `map`; padding is zero.
pub fn packer(
    name: &str,
    dtype: DType,
    from: Vec<Expr>,
    to: Vec<Expr>,
    map: IndexMap<'_>,
) -> PrimFunc {
    let mut f = FuncBuilder::new(name);
    let source = f.input("source", dtype, from.clone());
    let packed = f.output("padding", "packed", dtype, to, |_, _| Expr::constant(0.0, dtype));
    let func = f.func_mut();
    let mut iters = vec![];
    for (at, extent) in from.into_iter().enumerate() {
        let (outer, var) = (func.new_var(format!("i{at}")), func.new_var(format!("v_i{at}")));
        iters.push(BlockIter { var, extent, kind: IterKind::Spatial, value: outer.into() });
    }
    let point: Vec<Expr> = iters.iter().map(|i| i.var.into()).collect();
    let image = map(&point);
    let region = |buffer, at: &[Expr]| Region {
        buffer,
        ranges: at.iter().map(|i| (i.clone(), Expr::i64(1))).collect(),
    };
    let loops: Vec<(Var, Expr)> = iters
        .iter()
        .map(|i| (i.value.as_var().expect("bound to its loop"), i.extent.clone()))
        .collect();
    let block = Block {
        name: "pack".into(),
        iters,
        predicate: Expr::bool(true),
        reads: vec![region(source, &point)],
        writes: vec![region(packed, &image)],
        init: None,
        allocs: vec![],
        annotations: BTreeMap::new(),
        body: Stmt::store(packed, image, func.load(source, point)),
    };
    let nest = loops.into_iter().rev();
    f.push(nest.fold(Stmt::Block(Box::new(block)), |body, (v, n)| Stmt::serial(v, n, body)));
    f.finish()
}
