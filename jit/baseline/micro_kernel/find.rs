//! Recognises loops of multiply-adds into a tile of accumulators.
//!
//! Decision: docs/decisions/0086-micro-kernels.md

use reflex_tir::arith::Analyzer;
use reflex_tir::codegen::CpuTarget;
use reflex_tir::{
    Buffer, CmpOp, DType, Expr, ExprKind, For, ForKind, Intrin, PrimFunc, Scope, Sign, Stmt, Var,
};

use super::form::{Form, LoopForm, Operand, Operation, Step};
use super::vectors::Vectors;
use crate::position::position;

/// Most loops around the vector loop.
const MAX_LOOPS: usize = 4;
/// Iterations that are worth a call, where their number is known.
const MIN_ITERATIONS: i64 = 8;
/// Most bytes of a displacement in an operand, well below what an instruction has.
const MAX_OFFSET: u32 = 1 << 30;
/// Most iterations of the innermost loop that become copies of the steps, where they do not move all operands by
/// a fixed distance.
const MAX_COPIES: i64 = 8;

/// The vector units of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// The longest vectors.
    pub vectors: Vectors,
    /// AVX512_VNNI, which has dot products of 8-bit integers in vectors of 512 bits.
    pub avx512_vnni: bool,
    /// AVX-VNNI, which has them in vectors of 256 bits.
    pub avx_vnni: bool,
}

impl Units {
    /// The units that code for `cpu` may use.
    pub fn of(cpu: &CpuTarget) -> Option<Units> {
        let has = |feature: &str| cpu.features.contains(feature);
        let vectors = match has("avx2") && has("fma") {
            true if has("avx512f") && cpu.vector_bytes == 64 => Vectors::Avx512,
            true => Vectors::Avx2,
            false => return None,
        };
        Some(Units { vectors, avx512_vnni: cpu.has_avx512_vnni(), avx_vnni: has("avxvnni") })
    }

    fn has_dot(self, vectors: Vectors) -> bool {
        match vectors {
            Vectors::Avx2 => self.avx_vnni,
            Vectors::Avx512 => self.avx512_vnni,
        }
    }
}

/// A nest that is a micro-kernel.
#[derive(Debug)]
pub struct MicroKernel<'f> {
    /// The loops around the vector loop, outermost first.
    pub loops: Vec<&'f For>,
    /// The tile, which nothing else reads or writes meanwhile.
    pub accumulators: Buffer,
    /// The operand of each pointer of the code.
    pub accesses: Vec<Access>,
    /// Lanes, from the first on, that masked vectors are read for; the others are 0.
    pub mask: Option<Expr>,
    /// The code.
    pub form: Form,
}

/// The operand that a pointer of a micro-kernel reads: it starts at element `rest` where all loops are at 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The tensor.
    pub buffer: Buffer,
    /// Its element.
    pub rest: Expr,
    /// Elements that a step of each loop moves by, outermost first.
    pub strides: Vec<Expr>,
}

impl MicroKernel<'_> {
    /// The first element that each pointer reads.
    pub fn starts(&self) -> Vec<(Buffer, Expr)> {
        let start = |access: &Access| {
            let moved = self.loops.iter().zip(&access.strides);
            let moved = moved.map(|(l, stride)| l.min.clone() * stride.clone());
            (access.buffer, moved.fold(access.rest.clone(), |at, moved| at + moved))
        };
        self.accesses.iter().map(start).collect()
    }

    /// Words of the argument that the form does not know: iterations and distances of loops.
    pub fn words(&self) -> Vec<(usize, Expr)> {
        let mut words = vec![];
        for (at, (l, form)) in self.loops.iter().rev().zip(&self.form.loops).enumerate() {
            let first = self.form.word_of_loop(at);
            if form.iterations.is_none() {
                words.push((first, l.extent.clone()));
            }
            for (pointer, access) in self.accesses.iter().enumerate() {
                if form.moves[pointer].is_none() {
                    words.push((first + 2 + pointer, step(&self.loops, access, at)));
                }
            }
        }
        words
    }

    /// Whether each loop has an iteration.
    pub fn always_runs(&self) -> bool {
        self.form.loops.iter().all(|l| l.iterations.is_some())
    }
}

/// Bytes that a pointer moves by after an iteration of a loop, counted from the innermost: the loop inside has
/// moved it already.
fn step(loops: &[&For], access: &Access, at: usize) -> Expr {
    let number = loops.len() - 1 - at;
    let bytes = |number: usize| access.strides[number].clone() * Expr::i64(4);
    match loops.get(number + 1) {
        Some(inside) => bytes(number) - bytes(number + 1) * inside.extent.clone(),
        None => bytes(number),
    }
}

/// Loops as far as they are known, innermost first.
fn known_loops(loops: &[&For], accesses: &[Access]) -> Vec<LoopForm> {
    let number = |e: &Expr| e.as_int().and_then(|n| i32::try_from(n).ok());
    let known = |(at, l): (usize, &&For)| LoopForm {
        iterations: number(&l.extent).filter(|n| *n > 0),
        moves: accesses.iter().map(|access| number(&step(loops, access, at))).collect(),
    };
    loops.iter().rev().enumerate().map(known).collect()
}

/// The nest `l` as a micro-kernel with the CPU's vectors or shorter ones, if it is one.
pub fn find<'f>(func: &PrimFunc, l: &'f For, units: Units) -> Option<MicroKernel<'f>> {
    let mut loops = vec![];
    let mut next = l;
    while matches!(next.kind, ForKind::Serial | ForKind::Unrolled) {
        loops.push(next);
        let Stmt::For(inner) = &next.body else { return None };
        next = inner;
    }
    let lanes = next.extent.as_int().filter(|n| *n > 0)?;
    // Short rows have half of a register of AVX-512.
    let mut usable = [units.vectors, Vectors::Avx2].into_iter();
    let vectors = usable.find(|vectors| lanes % vectors.lanes() == 0)?;
    let is_row = next.kind == ForKind::Vectorized && next.min.as_int() == Some(0);
    let known = loops.iter().map(|l| l.extent.as_int()).product::<Option<i64>>();
    if !is_row || loops.len() > MAX_LOOPS || known.is_some_and(|n| n < MIN_ITERATIONS) {
        return None;
    }
    let row = Row { func, units, vectors, lanes, var: next.var };
    row.kernel(loops.clone(), &next.body).or_else(|| {
        let innermost = loops.pop().filter(|_| !loops.is_empty())?;
        let count = innermost.extent.as_int().filter(|n| (1..=MAX_COPIES).contains(n))?;
        let copy = |at: i64| {
            let index = innermost.min.clone() + at;
            next.body.substitute(&|v| (v == innermost.var).then(|| index.clone()))
        };
        row.kernel(loops, &Stmt::Seq((0..count).map(copy).collect()))
    })
}

/// The same behind a statement that fills the whole tile with zeros, which the micro-kernel does then.
pub fn find_behind_zeros<'f>(
    func: &PrimFunc,
    zeros: &Stmt,
    l: &'f For,
    units: Units,
) -> Option<MicroKernel<'f>> {
    let (tile, elements) = zeros_of(func, zeros)?;
    let mut kernel = find(func, l, units).filter(|kernel| kernel.accumulators == tile)?;
    let form = &mut kernel.form;
    let lanes = form.parts as i64 * form.vectors.lanes();
    let last = form.tiles.iter().map(|at| i64::from(*at) / 4 + lanes).max()?;
    form.starts_at_zero = last == elements && form.tiles.len() as i64 * lanes == elements;
    kernel.form.starts_at_zero.then_some(kernel)
}

/// The buffer whose elements, from the first to one before a number, a statement sets to zero once each.
fn zeros_of(func: &PrimFunc, s: &Stmt) -> Option<(Buffer, i64)> {
    let (mut vars, mut extents, mut next) = (vec![], vec![], s);
    while let Stmt::For(l) = next {
        if l.min.as_int() != Some(0) || l.kind == ForKind::Parallel {
            return None;
        }
        vars.push(l.var);
        extents.push(l.extent.as_int()?);
        next = &l.body;
    }
    let Stmt::Store { buffer, indices, value } = next else { return None };
    let is_zero =
        matches!(value.kind(), ExprKind::Float { bits: 0, .. } | ExprKind::Int { value: 0, .. });
    let linear = Analyzer::new().linear(&position(func, *buffer, indices), &vars)?;
    let from_first = linear.constant == 0 && linear.rest.as_int() == Some(0);
    let strides = linear.strides.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>()?;
    let mut digits: Vec<(i64, i64)> = strides.into_iter().zip(extents).collect();
    digits.sort_unstable();
    // Each loop counts what those with shorter strides cover together.
    let covered = digits.into_iter().try_fold(1i64, |covered, (stride, extent)| {
        (stride == covered).then(|| covered.checked_mul(extent)).flatten()
    })?;
    (is_zero && from_first).then_some((*buffer, covered))
}

/// The vector loop.
struct Row<'a> {
    func: &'a PrimFunc,
    units: Units,
    vectors: Vectors,
    lanes: i64,
    var: Var,
}

impl Row<'_> {
    /// The micro-kernel of loops around the vector loop with this body.
    fn kernel<'f>(&self, loops: Vec<&'f For>, steps: &Stmt) -> Option<MicroKernel<'f>> {
        let vars: Vec<Var> = loops.iter().map(|l| l.var).chain([self.var]).collect();
        let is_fixed = |e: &Expr| {
            let mut fixed = true;
            e.visit(&mut |e| fixed &= e.as_var().is_none_or(|v| !vars.contains(&v)));
            fixed
        };
        if !loops.iter().all(|l| is_fixed(&l.min) && is_fixed(&l.extent)) {
            return None;
        }
        let mut body = Body {
            func: self.func,
            vars: &vars,
            values: vec![],
            accumulators: None,
            operation: None,
            accesses: vec![],
            mask: None,
            tiles: vec![],
            steps: vec![],
        };
        body.stmt(steps)?;
        let bytes = i32::try_from(self.lanes * 4).ok()?;
        let mut sorted = body.tiles.clone();
        sorted.sort_unstable();
        let operation = body.operation?;
        let form = Form {
            operation,
            vectors: self.vectors,
            parts: usize::try_from(self.lanes / self.vectors.lanes()).ok()?,
            loops: known_loops(&loops, &body.accesses),
            pointers: body.accesses.len(),
            is_masked: body.mask.is_some(),
            starts_at_zero: false,
            tiles: body.tiles,
            steps: body.steps,
        };
        let has = operation == Operation::Fma || self.units.has_dot(self.vectors);
        let fits = has && sorted.windows(2).all(|pair| pair[1] - pair[0] >= bytes) && form.fits();
        let (accumulators, accesses, mask) = (body.accumulators?, body.accesses, body.mask);
        // Meanwhile the accumulators are in registers.
        let reads_them = |access: &Access| {
            let mut found = access.buffer == accumulators;
            for e in access.strides.iter().chain([&access.rest]).chain(&mask) {
                e.visit(&mut |e| {
                    found |= matches!(e.kind(), ExprKind::Load { buffer, .. } if *buffer == accumulators);
                });
            }
            found
        };
        let apart = !accesses.iter().any(reads_them);
        (fits && apart).then_some(MicroKernel { loops, accumulators, accesses, mask, form })
    }
}

/// An operand of a multiply-add.
#[derive(Clone, Copy)]
enum Value {
    /// One element for all lanes.
    Broadcast(Operand),
    /// An element for each lane, one after the other.
    Vector(Operand),
}

/// The body of the vector loop.
struct Body<'a> {
    func: &'a PrimFunc,
    /// The variables of the loops, that of the lanes last.
    vars: &'a [Var],
    values: Vec<(Var, Value)>,
    accumulators: Option<Buffer>,
    operation: Option<Operation>,
    accesses: Vec<Access>,
    mask: Option<Expr>,
    /// Bytes from the first accumulator to the first lane of each row.
    tiles: Vec<i32>,
    steps: Vec<Step>,
}

impl Body<'_> {
    fn stmt(&mut self, s: &Stmt) -> Option<()> {
        match s {
            Stmt::Let { var, value, body } => {
                let value = self.value(value)?;
                self.values.push((*var, value));
                self.stmt(body)
            }
            Stmt::Seq(all) => all.iter().try_for_each(|s| self.stmt(s)),
            Stmt::Store { buffer, indices, value } => {
                let ExprKind::Call { op, args, dtype } = value.kind() else { return None };
                let [a, b, sum] = &args[..] else { return None };
                let ExprKind::Load { buffer: of, indices: at, .. } = sum.kind() else {
                    return None;
                };
                if of != buffer || at != indices {
                    return None;
                }
                let tile = self.tile(*buffer, indices)?;
                let (broadcast, vector, is_first) = match (self.value(a)?, self.value(b)?) {
                    (Value::Broadcast(a), Value::Vector(b)) => (a, b, true),
                    (Value::Vector(a), Value::Broadcast(b)) => (b, a, false),
                    _ => return None,
                };
                let operation = match (op, *dtype) {
                    (Intrin::Fma, DType::F32) => Operation::Fma,
                    (Intrin::DotI8 { a: Sign::Unsigned, b: Sign::Signed }, DType::I32) => {
                        Operation::dot(is_first)
                    }
                    (Intrin::DotI8 { a: Sign::Signed, b: Sign::Unsigned }, DType::I32) => {
                        Operation::dot(!is_first)
                    }
                    _ => return None,
                };
                self.steps.push(Step { tile, broadcast, vector });
                (*self.operation.get_or_insert(operation) == operation).then_some(())
            }
            _ => None,
        }
    }

    /// The row of accumulators at `indices`.
    fn tile(&mut self, buffer: Buffer, indices: &[Expr]) -> Option<usize> {
        let is_tile = self.func.buffers[buffer].scope == Scope::Local;
        if !is_tile || *self.accumulators.get_or_insert(buffer) != buffer {
            return None;
        }
        let (access, operand) = self.access(buffer, indices)?;
        let (lanes, around) = access.strides.split_last()?;
        let fixed = around.iter().chain([&access.rest]).all(|e| e.as_int() == Some(0));
        if lanes.as_int() != Some(1) || !fixed {
            return None;
        }
        let known = self.tiles.iter().position(|at| *at == operand);
        Some(known.unwrap_or_else(|| {
            self.tiles.push(operand);
            self.tiles.len() - 1
        }))
    }

    fn value(&mut self, e: &Expr) -> Option<Value> {
        match e.kind() {
            ExprKind::Var { var, .. } => {
                self.values.iter().rev().find(|(v, _)| v == var).map(|(_, value)| *value)
            }
            ExprKind::Load { buffer, indices, dtype: DType::F32 | DType::U32 } => {
                let (mut access, offset) = self.access(*buffer, indices)?;
                let lanes = access.strides.pop()?.as_int()?;
                let pointer = match self.accesses.iter().position(|known| *known == access) {
                    Some(at) => at,
                    None => {
                        self.accesses.push(access);
                        self.accesses.len() - 1
                    }
                };
                let operand = Operand { pointer, offset, is_masked: false };
                match lanes {
                    0 => Some(Value::Broadcast(operand)),
                    1 => Some(Value::Vector(operand)),
                    _ => None,
                }
            }
            // LLVM's code, which comes to stay, asks for what follows.
            ExprKind::Call { op: Intrin::Prefetch, args, .. } => self.value(args.first()?),
            ExprKind::Call { op: Intrin::IfThenElse, args, .. } => {
                let [cond, value, otherwise] = &args[..] else { return None };
                let zero = matches!(
                    otherwise.kind(),
                    ExprKind::Float { bits: 0, .. } | ExprKind::Int { value: 0, .. }
                );
                let read = self.lanes_below(cond).filter(|_| zero)?;
                match self.value(value)? {
                    Value::Vector(operand) if !operand.is_masked => {
                        let same = *self.mask.get_or_insert_with(|| read.clone()) == read;
                        same.then_some(Value::Vector(Operand { is_masked: true, ..operand }))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The number of lanes, from the first on, that a condition holds for.
    fn lanes_below(&self, cond: &Expr) -> Option<Expr> {
        let ExprKind::Compare { op: CmpOp::Lt, a, b } = cond.kind() else { return None };
        let left = Analyzer::new().linear(&(b.clone() - a.clone()), self.vars)?;
        let (lanes, around) = left.strides.split_last()?;
        let fixed = lanes.as_int() == Some(-1) && around.iter().all(|e| e.as_int() == Some(0));
        fixed.then(|| left.rest + left.constant)
    }

    /// An access as a linear function of all loops, and its constant part in bytes.
    fn access(&self, buffer: Buffer, indices: &[Expr]) -> Option<(Access, i32)> {
        let position = position(self.func, buffer, indices);
        let linear = Analyzer::new().linear(&position, self.vars)?;
        let offset = i32::try_from(linear.constant.checked_mul(4)?).ok()?;
        // Copies of iterations and parts of a row are further displacements.
        if offset.unsigned_abs() > MAX_OFFSET {
            return None;
        }
        Some((Access { buffer, rest: linear.rest, strides: linear.strides }, offset))
    }
}
