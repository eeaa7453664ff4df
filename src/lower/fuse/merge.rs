//! Writes one kernel for a group: the members' naive kernels one after the other, with the results
//! between them as intermediate buffers. The schedule decides which buffers are inlined.

use std::collections::{BTreeSet, HashMap, HashSet};

use cranelift_entity::SecondaryMap;
use reflex_graph::{Func, Literal, Op, TensorType, Value};
use reflex_tir::schedule::{Relayout, Schedule, ScheduleError};
use reflex_tir::{
    Block, BlockIter, Buffer, DType, Expr, ExprKind, For, IndexCheck, Param, PrimFunc, Region,
    Scope, Stmt, Var,
};

use super::kernel_dims::KernelDims;
use super::propagate_layout::Layouts;
use crate::LowerError;
use crate::layout::{blocked_index, blocked_shape};
use crate::legalize::{LegalizeError, Legalized, OpCall, Operand, legalize};
use crate::packing::panels::{MatrixView, Packing};
use crate::precision::Precision;

/// One operator of a group.
pub struct GroupMember<'a> {
    /// Operator.
    pub op: &'a Op,
    /// Operands.
    pub args: Vec<Value>,
    /// Outputs.
    pub outputs: &'a [Value],
    /// The packings of constant operands.
    pub packings: Vec<Packing>,
    /// The block of channels that its sums are computed in.
    pub sums: Option<i64>,
    /// Where it came from, for messages.
    pub source: &'a str,
}

/// A kernel and the arguments of its call.
pub struct MergedKernel {
    /// The naive kernel.
    pub func: PrimFunc,
    /// Tensors it reads, in parameter order.
    pub args: Vec<Value>,
    /// Values of its scalar parameters.
    pub scalars: Vec<Expr>,
}

/// Merges the members, given in order; `results` are the kernel's, others of their outputs are intermediate.
/// `constant` gives the value of a constant, in its original layout.
pub fn merge<'a>(
    func: &Func,
    layouts: &Layouts,
    members: &[GroupMember<'a>],
    results: &[Value],
    constant: &dyn Fn(Value) -> Option<&'a Literal>,
    precision: Precision,
) -> Result<MergedKernel, LowerError> {
    let values: Vec<_> = members.iter().map(|m| (m.op, &m.args[..], m.outputs)).collect();
    let dims = KernelDims::of(func, &values);
    let mut merger = Merger {
        dims: &dims,
        precision,
        results,
        out: PrimFunc::new("kernel"),
        syms: HashMap::new(),
        buffers: HashMap::new(),
        inputs: vec![],
        body: vec![],
        block_names: BTreeSet::new(),
    };
    for (member, op) in members.iter().zip(&dims.ops) {
        let mut legalized = merger.legalize(member, op, constant).map_err(|e| {
            LowerError::unsupported(match member.source {
                "" => e.to_string(),
                source => format!("node {source}: {e}"),
            })
        })?;
        legalized.func = with_layouts(legalized.func, &legalized.inputs, member, layouts)
            .map_err(|refused| LowerError::internal(refused.to_string()))?;
        merger.append(member, &legalized)?;
    }
    Ok(merger.finish())
}

/// The member's kernel over tensors in their chosen layouts. Buffers that a sum writes have the
/// layout of the sums, other intermediates that of the first operand.
fn with_layouts(
    func: PrimFunc,
    inputs: &[usize],
    member: &GroupMember<'_>,
    layouts: &Layouts,
) -> Result<PrimFunc, ScheduleError> {
    let params: Vec<Buffer> = func.buffer_params().collect();
    let values = inputs.iter().map(|n| member.args[*n]).chain(member.outputs.iter().copied());
    let mut blocks: Vec<(Buffer, i64)> =
        params.iter().zip(values).filter_map(|(b, v)| Some((*b, layouts.of(v)?))).collect();
    // Winograd tiles are read from blocked layouts, but for those by phases.
    let tiles = |p: &Packing| matches!(p.matrix, MatrixView::Winograd(tile) if tile.step == 1);
    let tiles = member.packings.iter().any(tiles);
    let sums = member.sums.filter(|_| tiles);
    let source = member.args.first().and_then(|v| layouts.of(*v)).or(sums);
    let result = member.outputs.first().and_then(|v| layouts.of(*v));
    if blocks.is_empty() && member.sums.is_none() {
        return Ok(func);
    }
    let mut summed = HashSet::new();
    func.body.visit(&mut |s| {
        if let Stmt::Block(b) = s
            && b.init.is_some()
        {
            summed.extend(b.writes.iter().map(|r| r.buffer));
        }
    });
    for buffer in &func.allocs {
        let block = if summed.contains(buffer) { member.sums.or(result) } else { source };
        let shape = &func.buffers[*buffer].shape;
        // A block of VNNI pairs, or of words, holds as many channels.
        let packed = match (func.buffers[*buffer].dtype, member.op) {
            (DType::U32, Op::ConvInteger(_)) => 4,
            (DType::U32, _) => 2,
            _ => 1,
        };
        if let Some(block) = block.map(|block| block / packed)
            && shape.len() == 4
            && shape[1].as_int().is_some_and(|c| c % block == 0)
        {
            blocks.push((*buffer, block));
        }
    }
    let maps: Vec<_> =
        blocks.iter().map(|(_, block)| |at: &[Expr]| blocked_index(at, *block)).collect();
    let relayouts = blocks.iter().zip(&maps).map(|((buffer, block), map)| -> Relayout<'_> {
        (*buffer, blocked_shape(&func.buffers[*buffer].shape, *block), map)
    });
    let relayouts = relayouts.collect();
    let mut schedule = Schedule::new(func);
    schedule.transform_layouts(relayouts)?;
    Ok(schedule.into_func())
}

struct Merger<'a> {
    dims: &'a KernelDims,
    precision: Precision,
    results: &'a [Value],
    out: PrimFunc,
    /// Dimension of [`KernelDims`] to kernel variable.
    syms: HashMap<Var, Var>,
    /// Tensors that are parameters or were written by a member.
    buffers: HashMap<Value, Buffer>,
    inputs: Vec<Value>,
    body: Vec<Stmt>,
    block_names: BTreeSet<String>,
}

impl Merger<'_> {
    fn ty(&self, value: Value) -> Result<&TensorType, LegalizeError> {
        self.dims.ty(value).ok_or_else(|| LegalizeError {
            op: value.to_string(),
            reason: "it is not a tensor".to_string(),
        })
    }

    fn legalize<'c>(
        &self,
        member: &GroupMember<'_>,
        op: &Op,
        constant: &dyn Fn(Value) -> Option<&'c Literal>,
    ) -> Result<Legalized, LegalizeError> {
        let operands: Vec<Operand<'_>> = member
            .args
            .iter()
            .enumerate()
            .map(|(n, v)| {
                let packing = member.packings.iter().find(|p| p.operand == n);
                Ok(Operand { ty: self.ty(*v)?, constant: constant(*v), packing })
            })
            .collect::<Result<_, LegalizeError>>()?;
        let outs: Vec<TensorType> =
            member.outputs.iter().map(|v| self.ty(*v).cloned()).collect::<Result<_, _>>()?;
        let call = OpCall { operands: &operands, outs: &outs, dims: &self.dims.vars };
        legalize("member", op, &call, self.precision)
    }

    /// A dimension's variable in the kernel.
    fn sym(&mut self, var: Var) -> Var {
        let name = self.dims.vars.get(var).map_or_else(|| var.to_string(), |d| d.name.to_string());
        *self.syms.entry(var).or_insert_with(|| self.out.new_var(name))
    }

    /// An expression over dimensions, over the kernel's variables.
    fn dim(&mut self, e: &Expr) -> Expr {
        let mut vars = vec![];
        e.visit(&mut |e| vars.extend(e.as_var()));
        let map: HashMap<Var, Var> = vars.into_iter().map(|v| (v, self.sym(v))).collect();
        e.substitute(&|v| map.get(&v).map(|v| Expr::var(*v)))
    }

    fn append(&mut self, member: &GroupMember<'_>, from: &Legalized) -> Result<(), LowerError> {
        let mut map = Renaming { vars: SecondaryMap::new(), buffers: SecondaryMap::new() };
        self.bind_dims(member, from, &mut map)?;
        for (var, data) in from.func.vars.iter() {
            if map.vars[var].is_none() {
                let new = self.out.vars.push(data.clone());
                map.vars[var] = Some(Expr::new(ExprKind::Var { var: new, dtype: data.dtype }));
            }
        }
        self.bind_buffers(member, from, &mut map);
        for check in &from.func.checks {
            let buffer = map.buffer(check.buffer);
            let bounds = check.bounds.iter().map(|e| map.expr(e)).collect();
            let node = member.source.to_owned();
            self.out.checks.push(IndexCheck { buffer, bounds, node });
        }
        let body = map.stmt(&from.func.body, &mut |name| self.unique_block_name(name));
        self.body.push(body);
        Ok(())
    }

    fn unique_block_name(&mut self, name: &str) -> String {
        let mut unique = name.to_string();
        let mut n = 1;
        while !self.block_names.insert(unique.clone()) {
            unique = format!("{name}_{n}");
            n += 1;
        }
        unique
    }

    /// Maps the member's dimension variables and scalar parameters.
    fn bind_dims(
        &mut self,
        member: &GroupMember<'_>,
        from: &Legalized,
        map: &mut Renaming,
    ) -> Result<(), LowerError> {
        let explicit = from.func.params.iter().filter_map(|p| match p {
            Param::Scalar(v) => Some(*v),
            Param::Buffer(_) => None,
        });
        for (var, value) in explicit.zip(&from.scalars) {
            map.vars[var] = Some(self.dim(value));
        }
        let operands = from.inputs.iter().map(|n| member.args[*n]);
        let values: Vec<Value> = operands.chain(member.outputs.iter().copied()).collect();
        let buffers: Vec<Buffer> = from.func.buffer_params().collect();
        if values.len() != buffers.len() {
            return Err(LowerError::internal(format!("{:?} has a wrong kernel", member.op)));
        }
        for (value, buffer) in values.iter().zip(buffers) {
            let shape = self.dims.ty(*value).map_or_else(Vec::new, |t| t.shape.clone());
            for (local, dim) in from.func.buffers[buffer].shape.iter().zip(shape) {
                if let Some(var) = local.as_var()
                    && map.vars[var].is_none()
                {
                    map.vars[var] = Some(self.dim(&dim));
                }
            }
        }
        Ok(())
    }

    /// Maps the member's buffers: parameters to the group's buffers, the rest to new ones.
    fn bind_buffers(&mut self, member: &GroupMember<'_>, from: &Legalized, map: &mut Renaming) {
        let params: Vec<Buffer> = from.func.buffer_params().collect();
        let (inputs, outputs) = params.split_at(from.inputs.len());
        for (n, buffer) in from.inputs.iter().zip(inputs) {
            let value = member.args[*n];
            if !self.buffers.contains_key(&value) {
                let new = self.new_buffer(&from.func, *buffer, map);
                self.buffers.insert(value, new);
                self.inputs.push(value);
            }
            map.buffers[*buffer] = Some(self.buffers[&value]);
        }
        for (value, buffer) in member.outputs.iter().zip(outputs) {
            let new = self.new_buffer(&from.func, *buffer, map);
            self.buffers.insert(*value, new);
            map.buffers[*buffer] = Some(new);
            if !self.results.contains(value) {
                self.out.allocs.push(new);
            }
        }
        for buffer in from.func.buffers.keys() {
            if map.buffers[buffer].is_none() {
                let new = self.new_buffer(&from.func, buffer, map);
                map.buffers[buffer] = Some(new);
            }
        }
        let allocs = from.func.allocs.iter().filter_map(|b| map.buffers[*b]);
        self.out.allocs.extend(allocs);
    }

    fn new_buffer(&mut self, from: &PrimFunc, buffer: Buffer, map: &Renaming) -> Buffer {
        let data = &from.buffers[buffer];
        let shape = data.shape.iter().map(|e| map.expr(e)).collect();
        let name = format!("t{}", self.out.buffers.len());
        // TopK keeps the element that moves in local buffers.
        debug_assert!(data.scope != Scope::Shared, "naive kernels run on one thread");
        self.out.new_buffer(name, data.dtype, shape, data.scope)
    }

    fn finish(mut self) -> MergedKernel {
        let mut params: Vec<Param> =
            self.inputs.iter().map(|v| Param::Buffer(self.buffers[v])).collect();
        let outputs: Vec<Buffer> = self.results.iter().map(|v| self.buffers[v]).collect();
        // A dimension that is a parameter's own dimension needs no scalar parameter.
        let extents = |b: Buffer| self.out.buffers[b].shape.iter().filter_map(Expr::as_var);
        let inputs = self.inputs.iter().map(|v| self.buffers[v]);
        let visible: BTreeSet<Var> =
            inputs.chain(outputs.iter().copied()).flat_map(extents).collect();
        let mut hidden: Vec<(Var, Var)> =
            self.syms.iter().map(|(g, k)| (*k, *g)).filter(|(k, _)| !visible.contains(k)).collect();
        hidden.sort_unstable();
        params.extend(hidden.iter().map(|(kernel, _)| Param::Scalar(*kernel)));
        params.extend(outputs.iter().map(|b| Param::Buffer(*b)));
        self.out.params = params;
        self.out.num_outputs = outputs.len();
        self.out.body = match self.body.len() {
            1 => self.body.remove(0),
            _ => Stmt::Seq(self.body),
        };
        let scalars = hidden.into_iter().map(|(_, dim)| self.dims.in_graph(dim)).collect();
        MergedKernel { func: self.out, args: self.inputs, scalars }
    }
}

/// Maps one function's variables and buffers to another's.
struct Renaming {
    vars: SecondaryMap<Var, Option<Expr>>,
    buffers: SecondaryMap<Buffer, Option<Buffer>>,
}

impl Renaming {
    fn expr(&self, e: &Expr) -> Expr {
        match e.kind() {
            ExprKind::Var { var, .. } => self.vars[*var].clone().unwrap_or_else(|| e.clone()),
            ExprKind::Load { buffer, indices, dtype } => {
                let indices = indices.iter().map(|i| self.expr(i)).collect();
                Expr::load(self.buffer(*buffer), indices, *dtype)
            }
            _ => e.map_children(&mut |e| self.expr(e)),
        }
    }

    fn buffer(&self, buffer: Buffer) -> Buffer {
        self.buffers[buffer].unwrap_or(buffer)
    }

    /// A variable that a loop, block or `Let` defines.
    fn binder(&self, var: Var) -> Var {
        self.vars[var].as_ref().and_then(Expr::as_var).unwrap_or(var)
    }

    fn region(&self, r: &Region) -> Region {
        Region { buffer: self.buffer(r.buffer), ..r.map_exprs(|e| self.expr(e)) }
    }

    fn stmt(&self, s: &Stmt, names: &mut dyn FnMut(&str) -> String) -> Stmt {
        match s {
            Stmt::For(l) => Stmt::For(Box::new(For {
                var: self.binder(l.var),
                min: self.expr(&l.min),
                extent: self.expr(&l.extent),
                kind: l.kind.clone(),
                annotations: l.annotations.clone(),
                body: self.stmt(&l.body, names),
            })),
            Stmt::Block(b) => Stmt::Block(Box::new(self.block(b, names))),
            Stmt::Store { buffer, indices, value } => Stmt::Store {
                buffer: self.buffer(*buffer),
                indices: indices.iter().map(|i| self.expr(i)).collect(),
                value: self.expr(value),
            },
            Stmt::If { cond, then, otherwise } => Stmt::If {
                cond: self.expr(cond),
                then: Box::new(self.stmt(then, names)),
                otherwise: otherwise.as_ref().map(|s| Box::new(self.stmt(s, names))),
            },
            Stmt::Let { var, value, body } => Stmt::Let {
                var: self.binder(*var),
                value: self.expr(value),
                body: Box::new(self.stmt(body, names)),
            },
            Stmt::Allocate { buffer, body } => Stmt::Allocate {
                buffer: self.buffer(*buffer),
                body: Box::new(self.stmt(body, names)),
            },
            Stmt::While { cond, body } => {
                Stmt::While { cond: self.expr(cond), body: Box::new(self.stmt(body, names)) }
            }
            Stmt::Tile(tile) => {
                Stmt::Tile(tile.map(&mut |b| self.buffer(b), &mut |e| self.expr(e)))
            }
            Stmt::CallPacked(call) => {
                Stmt::CallPacked(call.map(&mut |b| self.buffer(b), &mut |e| self.expr(e)))
            }
            Stmt::Barrier(scope) => Stmt::Barrier(*scope),
            Stmt::Seq(list) => Stmt::Seq(list.iter().map(|s| self.stmt(s, names)).collect()),
        }
    }

    fn block(&self, b: &Block, names: &mut dyn FnMut(&str) -> String) -> Block {
        let iter = |i: &BlockIter| BlockIter {
            var: self.binder(i.var),
            extent: self.expr(&i.extent),
            kind: i.kind,
            value: self.expr(&i.value),
        };
        Block {
            name: names(&b.name),
            iters: b.iters.iter().map(iter).collect(),
            predicate: self.expr(&b.predicate),
            reads: b.reads.iter().map(|r| self.region(r)).collect(),
            writes: b.writes.iter().map(|r| self.region(r)).collect(),
            init: b.init.as_ref().map(|s| self.stmt(s, names)),
            allocs: b.allocs.iter().map(|b| self.buffer(*b)).collect(),
            annotations: b.annotations.clone(),
            body: self.stmt(&b.body, names),
        }
    }
}
