//! One kernel: signature, statements, blocks.

use std::collections::BTreeMap;

use reflex_graph::FuncId;
use reflex_node::builder::{Builder, Given};
use reflex_node::graph::{Field, NodeId, Value as Plain};
use reflex_tir::tensor_intrin::tile_dot_i8;
use reflex_tir::tile::{MmaOperand, StridedRows, TileOp};
use reflex_tir::{
    Block, Buffer, DType, Expr, For, ForKind, IterKind, Param, PrimFunc, Region, Stmt, abi,
};

use super::prim::{self, Names, external, prim_type};
use super::{Exporter, int, types};
use crate::error::ReflectError;

pub(super) struct KernelExporter<'c, 'm> {
    pub(super) cx: &'c mut Exporter<'m>,
    pub(super) func: &'m PrimFunc,
    pub(super) names: Names,
}

/// The type of a kernel, over variables that `names` takes up.
pub(super) fn signature(b: &mut Builder, names: &mut Names, func: &PrimFunc) -> NodeId {
    for var in abi::scalar_vars(func) {
        let data = &func.vars[var];
        let node = prim::scalar(b, &data.name, data.dtype);
        names.vars.insert(var, node);
    }
    let params: Vec<NodeId> = func
        .params
        .iter()
        .map(|param| match param {
            Param::Scalar(var) => prim_type(b, func.vars[*var].dtype),
            Param::Buffer(buffer) => {
                let data = &func.buffers[*buffer];
                let dims = names.exprs(b, &data.shape);
                types::tensor(b, data.dtype, dims)
            }
        })
        .collect();
    let ret = types::tuple(b, vec![]);
    types::function(b, params, ret, false)
}

/// The parts of `s_tir.SBlock` that are not what every block has.
struct BlockParts {
    name: String,
    iters: Vec<(NodeId, NodeId)>,
    predicate: NodeId,
    reads: Vec<NodeId>,
    writes: Vec<NodeId>,
    allocs: Vec<NodeId>,
    annotations: NodeId,
    init: Given,
    body: NodeId,
}

impl<'c, 'm> KernelExporter<'c, 'm> {
    pub(super) fn new(cx: &'c mut Exporter<'m>, func: &'m PrimFunc, names: Names) -> Self {
        KernelExporter { cx, func, names }
    }

    /// The kernel itself.
    pub(super) fn function(mut self, id: FuncId) -> Result<NodeId, ReflectError> {
        let func = self.func;
        let mut params = vec![];
        for param in &func.params {
            params.push(match param {
                Param::Scalar(var) => self.names.vars[var],
                Param::Buffer(buffer) => self.define(*buffer),
            });
        }
        let mut attrs = func.attrs.clone();
        let is_private = attrs.remove("private").is_some();
        if func.num_outputs != written_outputs(func) {
            attrs.insert("reflex.num_outputs".to_owned(), func.num_outputs.to_string());
        }
        let mut entries = self.dict(&attrs);
        let name = self.cx.names[id].clone();
        let b = &mut self.cx.b;
        if !is_private {
            entries.extend([b.string("global_symbol"), b.string(&name)]);
        }
        entries.extend([b.string("s_tir"), b.bool(true)]);
        let attrs = self.cx.attrs(entries);
        let body = self.body();
        let ty = match self.cx.b.node(self.cx.global(id)).field("ty") {
            Some(Field::Node(ty)) => *ty,
            _ => unreachable!("a global variable has a type"),
        };
        let (params, ret) = (self.cx.b.array(params), types::tuple(&mut self.cx.b, vec![]));
        let fields = [
            ("ty", Given::Node(ty)),
            ("attrs", Given::Node(attrs)),
            ("params", Given::Node(params)),
            ("ret_type", Given::Node(ret)),
            ("body", Given::Node(body)),
        ];
        Ok(self.cx.b.object("tirx.PrimFunc", &fields))
    }

    /// The body, below a block `root` where there are blocks or allocations.
    fn body(&mut self) -> NodeId {
        let func = self.func;
        let allocs: Vec<NodeId> = func.allocs.iter().map(|buffer| self.define(*buffer)).collect();
        let mut steps = vec![];
        for check in &func.checks {
            let mut args = vec![self.buffer_node(check.buffer)];
            args.extend(self.names.exprs(&mut self.cx.b, &check.bounds));
            args.push(prim::string(&mut self.cx.b, &check.node));
            steps.push(self.evaluate("check_indices", args));
        }
        self.steps(&func.body, &mut steps);
        let body = self.sequence(steps);
        let needs_root = match &func.body {
            Stmt::Block(block) => !block.iters.is_empty() || !allocs.is_empty(),
            body => has_block(body) || !allocs.is_empty(),
        };
        if !needs_root {
            return body;
        }
        let (predicate, annotations) = (self.truth(), self.cx.b.map(vec![]));
        self.realize(BlockParts {
            name: "root".to_owned(),
            iters: vec![],
            predicate,
            reads: vec![],
            writes: vec![],
            allocs,
            annotations,
            init: Given::None,
            body,
        })
    }

    fn truth(&mut self) -> NodeId {
        prim::int(&mut self.cx.b, 1, DType::BOOL)
    }

    fn define(&mut self, buffer: Buffer) -> NodeId {
        let data = &self.func.buffers[buffer];
        let shape = self.names.exprs(&mut self.cx.b, &data.shape);
        let b = &mut self.cx.b;
        let (shape, none) = (b.array(shape), b.array(vec![]));
        let (dtype, offset) = (prim_type(b, data.dtype), prim::int64(b, 0));
        let scope = b.string(data.scope.name());
        let fields = [
            ("dtype", Given::Node(dtype)),
            ("storage_scope", Given::Node(scope)),
            ("shape", Given::Node(shape)),
            ("strides", Given::Node(none)),
            ("elem_offset", Given::Node(offset)),
            ("data_alignment", int(64)),
            ("offset_factor", int(1)),
            ("allocated_addr", Given::Node(none)),
        ];
        let ty = b.object("tirx.BufferType", &fields);
        let var = prim::var(b, &data.name, ty);
        self.names.buffers.insert(buffer, var);
        var
    }

    /// The variable of a buffer, which a statement has.
    pub(super) fn buffer_node(&mut self, buffer: Buffer) -> NodeId {
        match self.names.buffer(buffer) {
            Given::Node(id) => id,
            // A buffer that nothing defines is a verifier's fault.
            _ => self.define(buffer),
        }
    }

    fn stmt(&mut self, stmt: &'m Stmt) -> NodeId {
        let mut steps = vec![];
        self.steps(stmt, &mut steps);
        self.sequence(steps)
    }

    /// One statement, or a sequence of others; `T.evaluate(0)` if there is none.
    fn sequence(&mut self, steps: Vec<NodeId>) -> NodeId {
        match steps[..] {
            [] => {
                let zero = prim::int(&mut self.cx.b, 0, DType::I32);
                self.cx.b.object("tirx.Evaluate", &[("value", Given::Node(zero))])
            }
            [one] => one,
            _ => {
                let seq = self.cx.b.array(steps);
                self.cx.b.object("tirx.SeqStmt", &[("seq", Given::Node(seq))])
            }
        }
    }

    /// Puts the statements on a list; what a statement binds holds for those after it.
    fn steps(&mut self, stmt: &'m Stmt, steps: &mut Vec<NodeId>) {
        let made = match stmt {
            Stmt::For(l) => self.for_loop(l),
            Stmt::Block(block) => self.block(block),
            Stmt::Store { buffer, indices, value } => {
                let value = self.names.expr(&mut self.cx.b, value);
                let indices = self.names.indices(&mut self.cx.b, indices);
                let fields = [
                    ("buffer", Given::Node(self.buffer_node(*buffer))),
                    ("value", Given::Node(value)),
                    ("indices", Given::Node(indices)),
                ];
                self.cx.b.object("tirx.BufferStore", &fields)
            }
            Stmt::If { cond, then, otherwise } => {
                let cond = self.names.expr(&mut self.cx.b, cond);
                let then = self.stmt(then);
                let otherwise =
                    otherwise.as_ref().map_or(Given::None, |s| Given::Node(self.stmt(s)));
                let fields = [
                    ("condition", Given::Node(cond)),
                    ("then_case", Given::Node(then)),
                    ("else_case", otherwise),
                ];
                self.cx.b.object("tirx.IfThenElse", &fields)
            }
            Stmt::While { cond, body } => {
                let cond = self.names.expr(&mut self.cx.b, cond);
                let body = self.stmt(body);
                let fields = [("condition", Given::Node(cond)), ("body", Given::Node(body))];
                self.cx.b.object("tirx.While", &fields)
            }
            Stmt::Let { var, value, body } => {
                let value = self.names.expr(&mut self.cx.b, value);
                let data = &self.func.vars[*var];
                let node = prim::scalar(&mut self.cx.b, &data.name, data.dtype);
                self.names.vars.insert(*var, node);
                let fields = [("var", Given::Node(node)), ("value", Given::Node(value))];
                steps.push(self.cx.b.object("tirx.Bind", &fields));
                return self.steps(body, steps);
            }
            Stmt::Allocate { buffer, body } => {
                let node = self.define(*buffer);
                let none = self.cx.b.map(vec![]);
                let fields = [("buffer", Given::Node(node)), ("annotations", Given::Node(none))];
                steps.push(self.cx.b.object("tirx.AllocBuffer", &fields));
                return self.steps(body, steps);
            }
            Stmt::Tile(tile) => self.tile(tile),
            Stmt::CallPacked(call) => self.call_packed(call),
            Stmt::Barrier(scope) => {
                let b = &mut self.cx.b;
                let ty = b.object("ir.PrimType", &[("dtype", Given::DType(String::new()))]);
                let args = vec![
                    prim::string(b, scope.name()),
                    prim::int(b, 0, DType::BOOL),
                    prim::int(b, -1, DType::I32),
                ];
                let call = prim::call(b, "tirx.tvm_storage_sync", args, ty);
                b.object("tirx.Evaluate", &[("value", Given::Node(call))])
            }
            Stmt::Seq(list) => return list.iter().for_each(|s| self.steps(s, steps)),
        };
        steps.push(made);
    }

    /// A statement that TVM lacks, a call of `reflex.NAME`.
    fn evaluate(&mut self, name: &str, args: Vec<NodeId>) -> NodeId {
        let b = &mut self.cx.b;
        let ty = b.object("ir.PrimType", &[("dtype", Given::DType(String::new()))]);
        let call = external(b, name, args, ty);
        b.object("tirx.Evaluate", &[("value", Given::Node(call))])
    }

    fn tile(&mut self, tile: &TileOp) -> NodeId {
        let one = |p: &mut Self, e: &Expr| p.names.expr(&mut p.cx.b, e);
        let rows = |p: &mut Self, rows: &StridedRows| {
            vec![p.buffer_node(rows.buffer), one(p, &rows.first), one(p, &rows.stride)]
        };
        match tile {
            TileOp::Zero { tile } => {
                let args = vec![self.buffer_node(*tile)];
                self.evaluate("tile_zero", args)
            }
            TileOp::Load { tile, from } => {
                let args = [vec![self.buffer_node(*tile)], rows(self, from)].concat();
                self.evaluate("tile_load", args)
            }
            TileOp::Store { tile, to } => {
                let args = [vec![self.buffer_node(*tile)], rows(self, to)].concat();
                self.evaluate("tile_store", args)
            }
            TileOp::DotBf16 { sum, a, b } => {
                let args = [sum, a, b].map(|buffer| self.buffer_node(*buffer)).to_vec();
                self.evaluate("tile_dot_bf16", args)
            }
            TileOp::DotI8 { sum, a, b, signs } => {
                let args = [sum, a, b].map(|buffer| self.buffer_node(*buffer)).to_vec();
                self.evaluate(tile_dot_i8(*signs).name, args)
            }
            TileOp::Mma(mma) => {
                let operand = |p: &mut Self, operand: &MmaOperand| {
                    let mut args = rows(p, &operand.rows);
                    let transposed = i64::from(operand.transposed);
                    args.push(prim::int(&mut p.cx.b, transposed, DType::BOOL));
                    args
                };
                let mut args = vec![self.buffer_node(mma.sum), one(self, &mma.first)];
                args.extend(operand(self, &mma.a));
                args.extend(operand(self, &mma.b));
                args.push(one(self, &mma.lane));
                self.evaluate("tile_mma", args)
            }
            TileOp::Box(copy) => {
                let mut args = vec![self.buffer_node(copy.to), one(self, &copy.first)];
                args.push(self.buffer_node(copy.from));
                for dim in &copy.dims {
                    args.extend([&dim.extent, &dim.stride, &dim.at].map(|e| one(self, e)));
                    args.push(one(self, &Expr::i64(dim.count)));
                }
                self.evaluate("tile_box", args)
            }
        }
    }

    fn for_loop(&mut self, l: &'m For) -> NodeId {
        let (min, extent) =
            (self.names.expr(&mut self.cx.b, &l.min), self.names.expr(&mut self.cx.b, &l.extent));
        let data = &self.func.vars[l.var];
        let var = prim::scalar(&mut self.cx.b, &data.name, data.dtype);
        self.names.vars.insert(l.var, var);
        let body = self.stmt(&l.body);
        let (kind, binding) = match &l.kind {
            ForKind::Serial => (0, Given::None),
            ForKind::Parallel => (1, Given::None),
            ForKind::Vectorized => (2, Given::None),
            ForKind::Unrolled => (3, Given::None),
            ForKind::ThreadBinding(axis) => {
                let thread = prim::scalar(&mut self.cx.b, "", DType::I64);
                let tag = self.cx.b.string(&axis.to_string());
                (4, Given::Node(self.iter_var(Given::None, thread, 1, tag)))
            }
        };
        let annotations = self.dict(&l.annotations);
        let annotations = self.cx.b.map(annotations);
        let fields = [
            ("loop_var", Given::Node(var)),
            ("min", Given::Node(min)),
            ("extent", Given::Node(extent)),
            ("kind", int(kind)),
            ("body", Given::Node(body)),
            ("thread_binding", binding),
            ("annotations", Given::Node(annotations)),
        ];
        self.cx.b.object("tirx.For", &fields)
    }

    fn iter_var(&mut self, dom: Given, var: NodeId, kind: i64, tag: NodeId) -> NodeId {
        let fields = [
            ("dom", dom),
            ("var", Given::Node(var)),
            ("iter_type", int(kind)),
            ("thread_tag", Given::Node(tag)),
        ];
        self.cx.b.object("tirx.IterVar", &fields)
    }

    fn range(&mut self, min: NodeId, extent: NodeId) -> NodeId {
        let fields = [("min", Given::Node(min)), ("extent", Given::Node(extent))];
        self.cx.b.object("ir.Range", &fields)
    }

    fn block(&mut self, block: &'m Block) -> NodeId {
        let mut iters = vec![];
        for iter in &block.iters {
            let value = self.names.expr(&mut self.cx.b, &iter.value);
            let extent = self.names.expr(&mut self.cx.b, &iter.extent);
            let zero = prim::int(&mut self.cx.b, 0, iter.extent.dtype());
            let dom = self.range(zero, extent);
            let data = &self.func.vars[iter.var];
            let var = prim::scalar(&mut self.cx.b, &data.name, data.dtype);
            let kind = match iter.kind {
                IterKind::Spatial => 0,
                IterKind::Reduce => 2,
                IterKind::Opaque => 4,
            };
            let tag = self.cx.b.string("");
            iters.push((self.iter_var(Given::Node(dom), var, kind, tag), value, iter.var, var));
        }
        // Over loop variables, which the iterators do not hide.
        let predicate = self.names.expr(&mut self.cx.b, &block.predicate);
        for (_, _, iter, var) in &iters {
            self.names.vars.insert(*iter, *var);
        }
        let (reads, writes) = (self.regions(&block.reads), self.regions(&block.writes));
        let annotations = self.dict(&block.annotations);
        let annotations = self.cx.b.map(annotations);
        let allocs = block.allocs.iter().map(|buffer| self.define(*buffer)).collect();
        let init = block.init.as_ref().map_or(Given::None, |init| Given::Node(self.stmt(init)));
        let body = self.stmt(&block.body);
        self.realize(BlockParts {
            name: block.name.clone(),
            iters: iters.into_iter().map(|(iter, value, _, _)| (iter, value)).collect(),
            predicate,
            reads,
            writes,
            allocs,
            annotations,
            init,
            body,
        })
    }

    fn realize(&mut self, parts: BlockParts) -> NodeId {
        let b = &mut self.cx.b;
        let (iters, values) = parts.iters.into_iter().unzip();
        let (iters, values) = (b.array(iters), b.array(values));
        let (reads, writes) = (b.array(parts.reads), b.array(parts.writes));
        let (name, allocs, none) = (b.string(&parts.name), b.array(parts.allocs), b.array(vec![]));
        let fields = [
            ("iter_vars", Given::Node(iters)),
            ("reads", Given::Node(reads)),
            ("writes", Given::Node(writes)),
            ("name_hint", Given::Node(name)),
            ("alloc_buffers", Given::Node(allocs)),
            ("match_buffers", Given::Node(none)),
            ("annotations", Given::Node(parts.annotations)),
            ("init", parts.init),
            ("body", Given::Node(parts.body)),
        ];
        let block = b.object("s_tir.SBlock", &fields);
        let fields = [
            ("iter_values", Given::Node(values)),
            ("predicate", Given::Node(parts.predicate)),
            ("block", Given::Node(block)),
        ];
        b.object("s_tir.SBlockRealize", &fields)
    }

    fn regions(&mut self, regions: &[Region]) -> Vec<NodeId> {
        regions.iter().map(|region| self.region(region)).collect()
    }

    fn region(&mut self, region: &Region) -> NodeId {
        let mut ranges = vec![];
        for (min, extent) in &region.ranges {
            let is_one = extent.as_int() == Some(1);
            let min = match is_one {
                true => self.names.index(&mut self.cx.b, min),
                false => self.names.expr(&mut self.cx.b, min),
            };
            let extent = self.names.expr(&mut self.cx.b, extent);
            ranges.push(self.range(min, extent));
        }
        let source = self.buffer_node(region.buffer);
        let b = &mut self.cx.b;
        let (ty, ranges) = (b.object("tirx.BufferRegionType", &[]), b.array(ranges));
        let fields = [
            ("ty", Given::Node(ty)),
            ("source", Given::Node(source)),
            ("region", Given::Node(ranges)),
        ];
        b.object("ir.TensorRegion", &fields)
    }

    /// Attributes: numbers and truth values as such, everything else texts. Keys and values in turn.
    fn dict(&mut self, attrs: &BTreeMap<String, String>) -> Vec<NodeId> {
        let b = &mut self.cx.b;
        let mut entries = vec![];
        for (key, value) in attrs {
            let number = value.parse::<i64>().ok().filter(|n| n.to_string() == *value);
            let plain = match (number, value.as_str()) {
                (Some(number), _) => Plain::Int(number),
                (None, "True") => Plain::Bool(true),
                (None, "False") => Plain::Bool(false),
                (None, text) => Plain::Text(unquoted(text).into()),
            };
            entries.extend([b.string(key), b.value(&plain)]);
        }
        entries
    }
}

/// A text that looks like something else is in quotes.
fn unquoted(text: &str) -> String {
    let inside = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inside.map_or(text.to_owned(), |inside| inside.replace("\\\"", "\"").replace("\\\\", "\\"))
}

fn has_block(stmt: &Stmt) -> bool {
    let mut found = false;
    stmt.visit(&mut |s| found |= matches!(s, Stmt::Block(_)));
    found
}

/// The number of tensor parameters that count as outputs: from the first that is written to the last.
fn written_outputs(func: &PrimFunc) -> usize {
    let mut written = vec![];
    func.body.visit(&mut |s| written.extend(s.written()));
    let count = func.buffer_params().count();
    func.buffer_params().position(|b| written.contains(&b)).map_or(0, |first| count - first)
}
