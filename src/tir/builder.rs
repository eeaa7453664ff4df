//! Writes naive functions: one block per output, one loop per axis, as legalisation needs.
//!
//! ```
//! use reflex_tir::{DType, Expr, builder::FuncBuilder};
//! let mut f = FuncBuilder::new("add1");
//! let x = f.input("x", DType::F32, vec![4.into()]);
//! f.output("compute", "y", DType::F32, vec![4.into()], |f, i| {
//!     f.at(x, i) + Expr::float(1.0, DType::F32)
//! });
//! assert_eq!(f.finish().params.len(), 2);
//! ```

use std::collections::BTreeMap;

use crate::{
    Block, BlockIter, Buffer, DType, Expr, ExprKind, IterKind, Param, PrimFunc, Region, Scope,
    Stmt, Var,
};

/// A reduction's start value and operation (TVM: `CommReducer`).
pub struct Reducer<'a> {
    /// Value before the first step.
    pub init: Expr,
    /// `combine(accumulator, element)`.
    pub combine: &'a dyn Fn(Expr, Expr) -> Expr,
}

/// Builds one [`PrimFunc`]: declare inputs, then stages in order, outputs included.
pub struct FuncBuilder {
    func: PrimFunc,
    stages: Vec<Stmt>,
    outputs: Vec<Buffer>,
}

impl FuncBuilder {
    /// Starts a function.
    pub fn new(name: impl Into<String>) -> FuncBuilder {
        FuncBuilder { func: PrimFunc::new(name), stages: vec![], outputs: vec![] }
    }

    /// A symbolic dimension (bound by the parameter shapes that mention it).
    pub fn symbol(&mut self, name: &str) -> Expr {
        self.func.new_var(name).into()
    }

    /// A scalar int64 parameter.
    pub fn scalar(&mut self, name: &str) -> Expr {
        let var = self.func.new_var(name);
        self.func.params.push(Param::Scalar(var));
        var.into()
    }

    /// An input tensor.
    pub fn input(&mut self, name: &str, dtype: DType, shape: Vec<Expr>) -> Buffer {
        let buffer = self.func.new_buffer(name, dtype, shape, Scope::Global);
        self.func.params.push(Param::Buffer(buffer));
        buffer
    }

    /// `buffer[indices]`
    pub fn at(&self, buffer: Buffer, indices: &[Expr]) -> Expr {
        self.func.load(buffer, indices.to_vec())
    }

    /// The shape of a buffer.
    pub fn shape(&self, buffer: Buffer) -> Vec<Expr> {
        self.func.buffers[buffer].shape.clone()
    }

    /// An intermediate tensor computed element by element.
    pub fn stage(
        &mut self,
        block: &str,
        name: &str,
        dtype: DType,
        shape: Vec<Expr>,
        value: impl FnOnce(&FuncBuilder, &[Expr]) -> Expr,
    ) -> Buffer {
        let buffer = self.func.new_buffer(name, dtype, shape, Scope::Global);
        self.func.allocs.push(buffer);
        self.compute(block, buffer, value);
        buffer
    }

    /// An output tensor computed element by element.
    pub fn output(
        &mut self,
        block: &str,
        name: &str,
        dtype: DType,
        shape: Vec<Expr>,
        value: impl FnOnce(&FuncBuilder, &[Expr]) -> Expr,
    ) -> Buffer {
        let buffer = self.declare_output(name, dtype, shape);
        self.compute(block, buffer, value);
        buffer
    }

    /// An intermediate tensor computed by a reduction over `axes` (their extents).
    #[expect(clippy::too_many_arguments, reason = "one call is one stage, read in order")]
    pub fn reduce_stage(
        &mut self,
        block: &str,
        name: &str,
        dtype: DType,
        shape: Vec<Expr>,
        axes: &[Expr],
        reducer: Reducer<'_>,
        value: impl FnOnce(&FuncBuilder, &[Expr], &[Expr]) -> Expr,
    ) -> Buffer {
        let buffer = self.func.new_buffer(name, dtype, shape, Scope::Global);
        self.func.allocs.push(buffer);
        self.reduce(block, buffer, axes, reducer, value);
        buffer
    }

    /// An output tensor computed by a reduction over `axes` (their extents).
    #[expect(clippy::too_many_arguments, reason = "one call is one stage, read in order")]
    pub fn reduce_output(
        &mut self,
        block: &str,
        name: &str,
        dtype: DType,
        shape: Vec<Expr>,
        axes: &[Expr],
        reducer: Reducer<'_>,
        value: impl FnOnce(&FuncBuilder, &[Expr], &[Expr]) -> Expr,
    ) -> Buffer {
        let buffer = self.declare_output(name, dtype, shape);
        self.reduce(block, buffer, axes, reducer, value);
        buffer
    }

    /// Declares an output whose stages follow by hand through [`FuncBuilder::push`].
    pub fn declare_output(&mut self, name: &str, dtype: DType, shape: Vec<Expr>) -> Buffer {
        let buffer = self.func.new_buffer(name, dtype, shape, Scope::Global);
        self.outputs.push(buffer);
        buffer
    }

    /// A block of independent iterations over `extents` around one store, for outputs that
    /// several blocks fill in parts.
    ///
    /// # Panics
    /// When `store` makes anything but a [`Stmt::Store`].
    pub fn fill(
        &mut self,
        block: &str,
        extents: &[Expr],
        store: impl FnOnce(&FuncBuilder, &[Expr]) -> Stmt,
    ) {
        let (mut loops, mut iters) = (vec![], vec![]);
        self.axes("i", IterKind::Spatial, extents, &mut loops, &mut iters);
        let at: Vec<Expr> = iters.iter().map(|i| i.var.into()).collect();
        let body = store(self, &at);
        let Stmt::Store { buffer, .. } = &body else { panic!("`{block}` is not one store") };
        let buffer = *buffer;
        self.push_block(block, loops, iters, None, body, buffer);
    }

    /// A serial loop around the stages that `body` adds.
    pub fn repeat(&mut self, name: &str, extent: Expr, body: impl FnOnce(&mut FuncBuilder, Expr)) {
        let var = self.func.new_var(name);
        let before = std::mem::take(&mut self.stages);
        body(self, var.into());
        let inner = std::mem::replace(&mut self.stages, before);
        self.stages.push(Stmt::serial(var, extent, Stmt::Seq(inner)));
    }

    /// The function so far, to add variables, buffers or allocations by hand.
    pub fn func_mut(&mut self) -> &mut PrimFunc {
        &mut self.func
    }

    /// Appends a hand-written statement as the next stage.
    pub fn push(&mut self, stmt: Stmt) {
        self.stages.push(stmt);
    }

    /// The finished function: outputs become the last parameters.
    pub fn finish(mut self) -> PrimFunc {
        self.func.num_outputs = self.outputs.len();
        self.func.params.extend(self.outputs.iter().map(|b| Param::Buffer(*b)));
        self.func.body = match self.stages.len() {
            1 => self.stages.remove(0),
            _ => Stmt::Seq(self.stages),
        };
        self.func
    }

    fn compute(
        &mut self,
        block: &str,
        buffer: Buffer,
        value: impl FnOnce(&FuncBuilder, &[Expr]) -> Expr,
    ) {
        let shape = self.shape(buffer);
        let (mut loops, mut iters) = (vec![], vec![]);
        self.axes("i", IterKind::Spatial, &shape, &mut loops, &mut iters);
        let at: Vec<Expr> = iters.iter().map(|i| i.var.into()).collect();
        let value = value(self, &at);
        let body = Stmt::store(buffer, at, value);
        self.push_block(block, loops, iters, None, body, buffer);
    }

    fn reduce(
        &mut self,
        block: &str,
        buffer: Buffer,
        axes: &[Expr],
        reducer: Reducer<'_>,
        value: impl FnOnce(&FuncBuilder, &[Expr], &[Expr]) -> Expr,
    ) {
        let shape = self.shape(buffer);
        let (mut loops, mut iters) = (vec![], vec![]);
        self.axes("i", IterKind::Spatial, &shape, &mut loops, &mut iters);
        self.axes("k", IterKind::Reduce, axes, &mut loops, &mut iters);
        let at: Vec<Expr> = iters[..shape.len()].iter().map(|i| i.var.into()).collect();
        let red: Vec<Expr> = iters[shape.len()..].iter().map(|i| i.var.into()).collect();
        let element = value(self, &at, &red);
        let combined = (reducer.combine)(self.at(buffer, &at), element);
        let init = Stmt::store(buffer, at.clone(), reducer.init);
        let body = Stmt::store(buffer, at, combined);
        self.push_block(block, loops, iters, Some(init), body, buffer);
    }

    fn axes(
        &mut self,
        prefix: &str,
        kind: IterKind,
        extents: &[Expr],
        loops: &mut Vec<(Var, Expr)>,
        iters: &mut Vec<BlockIter>,
    ) {
        for (n, extent) in extents.iter().enumerate() {
            let outer = self.func.new_var(format!("{prefix}{n}"));
            let var = self.func.new_var(format!("v_{prefix}{n}"));
            loops.push((outer, extent.clone()));
            iters.push(BlockIter { var, extent: extent.clone(), kind, value: outer.into() });
        }
    }

    fn push_block(
        &mut self,
        name: &str,
        loops: Vec<(Var, Expr)>,
        iters: Vec<BlockIter>,
        init: Option<Stmt>,
        body: Stmt,
        written: Buffer,
    ) {
        let (reads, writes) = point_regions(&self.func, &body, written);
        let block = Block {
            name: name.to_string(),
            iters,
            predicate: Expr::bool(true),
            reads,
            writes,
            init,
            allocs: vec![],
            annotations: BTreeMap::new(),
            body,
        };
        let nest =
            loops.into_iter().rev().fold(Stmt::Block(Box::new(block)), |body, (var, extent)| {
                Stmt::serial(var, extent, body)
            });
        self.stages.push(nest);
    }
}

/// The regions one store reads and writes (the written buffer is not a read): single elements,
/// or the whole buffer where an access is by row-major position.
fn point_regions(func: &PrimFunc, store: &Stmt, written: Buffer) -> (Vec<Region>, Vec<Region>) {
    let Stmt::Store { buffer, indices, value } = store else {
        unreachable!("the builder's blocks hold one store");
    };
    let point = |buffer: Buffer, indices: &[Expr]| {
        let shape = &func.buffers[buffer].shape;
        let ranges = match indices.len() == shape.len() {
            true => indices.iter().map(|i| (i.clone(), Expr::i64(1))).collect(),
            false => shape.iter().map(|n| (Expr::i64(0), n.clone())).collect(),
        };
        Region { buffer, ranges }
    };
    let mut reads: Vec<Region> = vec![];
    value.visit(&mut |e| {
        if let ExprKind::Load { buffer, indices, .. } = e.kind()
            && *buffer != written
        {
            let region = point(*buffer, indices);
            if !reads.contains(&region) {
                reads.push(region);
            }
        }
    });
    (reads, vec![point(*buffer, indices)])
}
