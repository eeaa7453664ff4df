//! Functions, statements and blocks as text.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use super::names::{Names, identifier};
use super::ops::name_of;
use crate::arith::Analyzer;
use crate::box_copy::BoxDim;
use crate::mma::Team;
use crate::tile::{MmaOperand, StridedRows, TileOp};
use crate::{
    Block, BlockIter, Buffer, CallArg, DType, Expr, ExprKind, For, ForKind, Intrin, IterKind,
    PackedCall, Param, PrimFunc, Region, Scope, Stmt, Var, abi,
};

/// The whole text of one function: imports as a comment, symbolic dimensions, definition.
pub fn print(func: &PrimFunc) -> String {
    let mut head = String::from("# from tvm.script import tirx as T\n\n");
    let symbols = symbols(func);
    if !symbols.is_empty() {
        head.insert_str(0, "# from typing import TypeVar\n");
    }
    for name in symbols {
        let _ = writeln!(head, "{name} = TypeVar(\"{name}\")");
    }
    head + &print_indented(func, 0)
}

/// Names of the symbolic dimensions, which a module declares before its definitions.
pub fn symbols(func: &PrimFunc) -> Vec<String> {
    Printer::new(func).symbols
}

/// The definition alone, indented by `levels` of four spaces.
pub fn print_indented(func: &PrimFunc, levels: usize) -> String {
    let mut p = Printer::new(func);
    p.indent = levels;
    p.function();
    p.out
}

pub(super) struct Printer<'f> {
    func: &'f PrimFunc,
    out: String,
    indent: usize,
    names: Names,
    vars: HashMap<Var, String>,
    buffers: HashMap<Buffer, String>,
    symbols: Vec<String>,
    /// Loops around, with constant bounds or not.
    loops: Vec<(Var, Expr, Expr)>,
}

impl<'f> Printer<'f> {
    fn new(func: &'f PrimFunc) -> Printer<'f> {
        let mut p = Printer {
            func,
            out: String::new(),
            indent: 0,
            names: Names::default(),
            vars: HashMap::new(),
            buffers: HashMap::new(),
            symbols: vec![],
            loops: vec![],
        };
        p.names.enter();
        for var in abi::scalar_vars(func) {
            if !func.params.contains(&Param::Scalar(var)) {
                let name = p.name_var(var);
                p.symbols.push(name);
            }
        }
        p
    }

    pub(super) fn var(&self, var: Var) -> String {
        // A variable out of scope is a verifier's fault; show it as what it is.
        self.vars.get(&var).cloned().unwrap_or_else(|| format!("{var}"))
    }

    pub(super) fn buffer(&self, buffer: Buffer) -> String {
        self.buffers.get(&buffer).cloned().unwrap_or_else(|| format!("{buffer}"))
    }

    fn name_var(&mut self, var: Var) -> String {
        let name = self.names.fresh(&self.func.vars[var].name);
        self.vars.insert(var, name.clone());
        name
    }

    fn name_buffer(&mut self, buffer: Buffer) -> String {
        let name = self.names.fresh(&self.func.buffers[buffer].name);
        self.buffers.insert(buffer, name.clone());
        name
    }

    fn line(&mut self, text: &str) {
        for _ in 0..self.indent {
            self.out.push_str("    ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn indented(&mut self, f: impl FnOnce(&mut Self)) {
        self.indent += 1;
        self.names.enter();
        f(self);
        self.names.leave();
        self.indent -= 1;
    }

    fn function(&mut self) {
        let func = self.func;
        // Dimensions of a buffer may be over numbers that are passed behind it.
        for param in &func.params {
            if let Param::Scalar(var) = param {
                self.name_var(*var);
            }
        }
        let mut params = vec![];
        for param in &func.params {
            params.push(match param {
                Param::Scalar(var) => {
                    format!("{}: T.{}", self.vars[var], func.vars[*var].dtype)
                }
                Param::Buffer(b) => {
                    let name = self.name_buffer(*b);
                    let data = &func.buffers[*b];
                    format!("{name}: T.Buffer({}, \"{}\")", self.signature_shape(*b), data.dtype)
                }
            });
        }
        let mut attrs = func.attrs.clone();
        let private = attrs.remove("private").map_or("", |_| "private=True, ");
        self.line(&format!("@T.prim_func({private}s_tir=True)"));
        self.line(&format!("def {}({}):", identifier(&func.name), params.join(", ")));
        if func.num_outputs != written_outputs(func) {
            attrs.insert("reflex.num_outputs".into(), func.num_outputs.to_string());
        }
        self.indented(|p| {
            if !attrs.is_empty() {
                p.line(&format!("T.func_attr({})", dict(&attrs)));
            }
            if !matches!(func.body, Stmt::Block(_)) && has_block(&func.body) {
                p.line("# with T.sblock(\"root\"):");
            }
            for buffer in &func.allocs {
                p.allocation("sblock_alloc_buffer", *buffer);
            }
            for check in &func.checks {
                let (indices, bounds) = (p.buffer(check.buffer), p.exprs(&check.bounds));
                let node = string(&check.node);
                p.line(&format!("T.check_indices({indices}, [{bounds}], {node})"));
            }
            p.stmt(&func.body);
        });
    }

    fn shape(&self, shape: &[Expr]) -> String {
        match shape {
            [one] => format!("({},)", self.expr(one)),
            _ => format!("({})", self.exprs(shape)),
        }
    }

    /// Dimensions computed from symbolic ones stand in quotes in a signature.
    fn signature_shape(&self, buffer: Buffer) -> String {
        let dim = |e: &Expr| match e.kind() {
            ExprKind::Int { .. } | ExprKind::Var { .. } => self.expr(e),
            _ => string(&self.expr(e)),
        };
        match &self.func.buffers[buffer].shape[..] {
            [one] => format!("({},)", dim(one)),
            many => format!("({})", many.iter().map(dim).collect::<Vec<_>>().join(", ")),
        }
    }

    fn allocation(&mut self, function: &str, buffer: Buffer) {
        let data = &self.func.buffers[buffer];
        let (function, scope) = match (function, data.scope) {
            ("alloc_buffer", Scope::Local) => ("alloc_local", ""),
            ("alloc_buffer", Scope::Shared) => ("alloc_shared", ""),
            (_, Scope::Global) => (function, ""),
            (_, Scope::Local) => (function, ", scope=\"local\""),
            (_, Scope::Shared) => (function, ", scope=\"shared\""),
            (_, Scope::Tile) => (function, ", scope=\"tile\""),
        };
        let dtype = match data.dtype {
            DType::F32 => String::new(),
            other => format!(", \"{other}\""),
        };
        let shape = self.shape(&data.shape);
        let name = self.name_buffer(buffer);
        self.line(&format!("{name} = T.{function}({shape}{dtype}{scope})"));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(l) => self.for_loop(l),
            Stmt::Block(b) => self.block(b),
            Stmt::Store { buffer, indices, value } => {
                let (at, value) = (self.indices(indices), self.expr(value));
                self.line(&format!("{}[{at}] = {value}", self.buffer(*buffer)));
            }
            Stmt::If { cond, then, otherwise } => {
                self.line(&format!("if {}:", self.expr(cond)));
                self.indented(|p| p.stmt(then));
                if let Some(otherwise) = otherwise {
                    self.line("else:");
                    self.indented(|p| p.stmt(otherwise));
                }
            }
            Stmt::While { cond, body } => {
                self.line(&format!("while {}:", self.expr(cond)));
                self.indented(|p| p.stmt(body));
            }
            Stmt::Let { var, value, body } => {
                let value = self.expr(value);
                let (dtype, name) = (self.func.vars[*var].dtype, self.name_var(*var));
                self.line(&format!("{name}: T.let[T.{dtype}] = {value}"));
                self.stmt(body);
            }
            Stmt::Allocate { buffer, body } => {
                self.allocation("alloc_buffer", *buffer);
                self.stmt(body);
            }
            Stmt::Tile(tile) => self.tile(tile),
            Stmt::CallPacked(call) => self.call_packed(call),
            Stmt::Barrier(scope) => {
                self.line(&format!("T.tvm_storage_sync(\"{}\")", scope.name()));
            }
            Stmt::Seq(list) => {
                let mut list = list.iter().filter(|s| !is_nop(s)).peekable();
                if list.peek().is_none() {
                    self.line("T.evaluate(0)");
                }
                list.for_each(|s| self.stmt(s));
            }
        }
    }

    fn call_packed(&mut self, call: &PackedCall) {
        let arg = |arg: &CallArg| match arg {
            CallArg::Tensor(buffer) => self.buffer(*buffer),
            CallArg::Scalar(value) => self.expr(value),
            CallArg::Text(text) => string(text),
        };
        let args = [string(&call.name)].into_iter().chain(call.args.iter().map(arg));
        self.line(&format!("T.call_packed({})", args.collect::<Vec<_>>().join(", ")));
    }

    fn tile(&mut self, tile: &TileOp) {
        let rows = |r: &StridedRows| {
            let (buffer, first, stride) =
                (self.buffer(r.buffer), self.expr(&r.first), self.expr(&r.stride));
            format!("{buffer}[{first}], {stride}")
        };
        let line = match tile {
            TileOp::Zero { tile } => format!("T.tile_zero({})", self.buffer(*tile)),
            TileOp::Load { tile, from } => {
                format!("T.tile_load({}, {})", self.buffer(*tile), rows(from))
            }
            TileOp::Store { tile, to } => {
                format!("T.tile_store({}, {})", self.buffer(*tile), rows(to))
            }
            TileOp::DotBf16 { sum, a, b } => {
                let names = [sum, a, b].map(|buffer| self.buffer(*buffer));
                format!("T.tile_dot_bf16({})", names.join(", "))
            }
            TileOp::DotI8 { sum, a, b, signs } => {
                let names = [sum, a, b].map(|buffer| self.buffer(*buffer));
                let name = name_of(Intrin::DotI8 { a: signs[0], b: signs[1] });
                format!("T.tile_{name}({})", names.join(", "))
            }
            TileOp::Mma(mma) => {
                let operand = |operand: &MmaOperand| {
                    let transposed = if operand.transposed { "True" } else { "False" };
                    format!("{}, {transposed}", rows(&operand.rows))
                };
                let (sum, first) = (self.buffer(mma.sum), self.expr(&mma.first));
                let (a, b, lane) = (operand(&mma.a), operand(&mma.b), self.expr(&mma.lane));
                let team = match mma.team {
                    Team::Warp => "mma(".to_owned(),
                    Team::Warpgroup { columns } => format!("wgmma({columns}, "),
                };
                format!("T.tile_{team}{sum}[{first}], {a}, {b}, {lane})")
            }
            TileOp::Box(copy) => {
                let (to, first) = (self.buffer(copy.to), self.expr(&copy.first));
                let mut dims = String::new();
                for BoxDim { extent, stride, at, count } in &copy.dims {
                    let [extent, stride, at] = [extent, stride, at].map(|e| self.expr(e));
                    dims.push_str(&format!(", {extent}, {stride}, {at}, {count}"));
                }
                format!("T.tile_box({to}[{first}], {}{dims})", self.buffer(copy.from))
            }
        };
        self.line(&line);
    }

    fn for_loop(&mut self, l: &For) {
        let nest = grid(l);
        let bounds: Vec<Expr> = nest.iter().map(|l| l.extent.clone()).collect();
        let head = match nest.len() {
            0 | 1 => self.single(l),
            _ => format!("T.grid({})", self.exprs(&bounds)),
        };
        let nest = if nest.is_empty() { vec![l] } else { nest };
        let body = &nest.last().expect("one loop at least").body;
        self.names.enter();
        let vars: Vec<String> = nest.iter().map(|l| self.name_var(l.var)).collect();
        self.line(&format!("for {} in {head}:", vars.join(", ")));
        let depth = self.loops.len();
        self.loops.extend(nest.iter().map(|l| (l.var, l.min.clone(), l.extent.clone())));
        self.indented(|p| p.stmt(body));
        self.loops.truncate(depth);
        self.names.leave();
    }

    fn single(&self, l: &For) -> String {
        let from_zero = l.min.as_int() == Some(0);
        let range = match from_zero {
            true => self.expr(&l.extent),
            false => {
                let end = Analyzer::new().simplify(&(l.min.clone() + l.extent.clone()));
                format!("{}, {}", self.expr(&l.min), self.expr(&end))
            }
        };
        let extra = match l.annotations.is_empty() {
            true => String::new(),
            false => format!(", annotations={}", dict(&l.annotations)),
        };
        match &l.kind {
            ForKind::Serial if extra.is_empty() => format!("range({range})"),
            ForKind::Serial => format!("T.serial({range}{extra})"),
            ForKind::Parallel => format!("T.parallel({range}{extra})"),
            ForKind::Vectorized => format!("T.vectorized({range}{extra})"),
            ForKind::Unrolled => format!("T.unroll({range}{extra})"),
            ForKind::ThreadBinding(axis) => {
                format!("T.thread_binding({range}, thread=\"{axis}\"{extra})")
            }
        }
    }

    fn block(&mut self, b: &Block) {
        self.line(&format!("with T.sblock({}):", string(&b.name)));
        self.indented(|p| {
            p.axes(&b.iters);
            if b.predicate.as_int() != Some(1) {
                // Over loop variables, which the iterators do not hide.
                p.line(&format!("T.where({})", p.expr(&b.predicate)));
            }
            p.line(&format!("T.reads({})", p.regions(&b.reads)));
            p.line(&format!("T.writes({})", p.regions(&b.writes)));
            if !b.annotations.is_empty() {
                p.line(&format!("T.sblock_attr({})", dict(&b.annotations)));
            }
            for buffer in &b.allocs {
                p.allocation("sblock_alloc_buffer", *buffer);
            }
            if let Some(init) = &b.init {
                p.line("with T.init():");
                p.indented(|p| p.stmt(init));
            }
            p.stmt(&b.body);
        });
    }

    /// Runs of iterators that are whole loops print as one `remap`.
    fn axes(&mut self, iters: &[BlockIter]) {
        let whole = |p: &Self, i: &BlockIter| {
            let var = i.value.as_var();
            i.kind != IterKind::Opaque
                && p.loops.iter().any(|(v, min, extent)| {
                    Some(*v) == var && min.as_int() == Some(0) && *extent == i.extent
                })
        };
        let mut rest = iters;
        while let Some(first) = rest.first() {
            let run = rest.iter().take_while(|i| whole(self, i)).count();
            if run < 2 {
                let kind = match first.kind {
                    IterKind::Spatial => "spatial",
                    IterKind::Reduce => "reduce",
                    IterKind::Opaque => "opaque",
                };
                let (extent, value) = (self.expr(&first.extent), self.expr(&first.value));
                let name = self.name_var(first.var);
                self.line(&format!("{name} = T.axis.{kind}({extent}, {value})"));
                rest = &rest[1..];
                continue;
            }
            let (now, later) = rest.split_at(run);
            let kinds: String =
                now.iter().map(|i| if i.kind == IterKind::Reduce { 'R' } else { 'S' }).collect();
            let values: Vec<Expr> = now.iter().map(|i| i.value.clone()).collect();
            let values = self.exprs(&values);
            let names: Vec<String> = now.iter().map(|i| self.name_var(i.var)).collect();
            self.line(&format!("{} = T.axis.remap(\"{kinds}\", [{values}])", names.join(", ")));
            rest = later;
        }
    }

    fn regions(&self, regions: &[Region]) -> String {
        let one = |r: &Region| {
            let ranges: Vec<String> = r.ranges.iter().map(|(min, n)| self.range(min, n)).collect();
            let ranges = if ranges.is_empty() { "()".into() } else { ranges.join(", ") };
            format!("{}[{ranges}]", self.buffer(r.buffer))
        };
        regions.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn range(&self, min: &Expr, extent: &Expr) -> String {
        if extent.as_int() == Some(1) {
            return self.index(min);
        }
        let end = Analyzer::new().simplify(&(min.clone() + extent.clone()));
        format!("{}:{}", self.expr(min), self.expr(&end))
    }
}

/// The loops, two or more, that print as one `T.grid`, or none.
fn grid(l: &For) -> Vec<&For> {
    let plain = |l: &For| {
        l.kind == ForKind::Serial && l.annotations.is_empty() && l.min.as_int() == Some(0)
    };
    let mut nest: Vec<&For> = vec![];
    let mut next = Some(l);
    while let Some(l) = next.filter(|l| plain(l)) {
        let mut depends = false;
        l.extent.visit(&mut |e| depends |= nest.iter().any(|o| e.as_var() == Some(o.var)));
        if depends {
            break;
        }
        nest.push(l);
        next = only_loop(&l.body);
    }
    nest
}

/// The loop that a statement is, nothing aside.
fn only_loop(s: &Stmt) -> Option<&For> {
    match s {
        Stmt::For(l) => Some(l),
        Stmt::Seq(list) => {
            let mut list = list.iter().filter(|s| !is_nop(s));
            let first = list.next()?;
            list.next().is_none().then(|| only_loop(first))?
        }
        _ => None,
    }
}

/// Whether a statement is made of nothing but empty sequences.
fn is_nop(s: &Stmt) -> bool {
    matches!(s, Stmt::Seq(list) if list.iter().all(is_nop))
}

fn has_block(stmt: &Stmt) -> bool {
    let mut found = false;
    stmt.visit(&mut |s| found |= matches!(s, Stmt::Block(_)));
    found
}

/// Attributes: numbers and truth values bare, everything else quoted.
fn dict(attrs: &BTreeMap<String, String>) -> String {
    let entry = |(key, value): (&String, &String)| {
        let bare = value.parse::<i64>().is_ok_and(|n| n.to_string() == *value)
            || value == "True"
            || value == "False"
            || value.starts_with('"');
        let value = if bare { value.clone() } else { string(value) };
        format!("{}: {value}", string(key))
    };
    format!("{{{}}}", attrs.iter().map(entry).collect::<Vec<_>>().join(", "))
}

/// A Python string literal.
pub fn string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The number of tensor parameters that count as outputs: from the first that is written to the
/// last.
pub(super) fn written_outputs(func: &PrimFunc) -> usize {
    let mut written = vec![];
    func.body.visit(&mut |s| {
        if let Some(buffer) = s.written() {
            written.push(buffer);
        }
    });
    let count = func.buffer_params().count();
    func.buffer_params().position(|b| written.contains(&b)).map_or(0, |first| count - first)
}
