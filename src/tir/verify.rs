//! Lists everything that is wrong with a function.
//!
//! A pass that leaves a fault is broken; input from outside (script text, a request on a pipe)
//! that has one is refused. What cannot be decided without values (index bounds, shapes of
//! arguments) is checked at run time by entries and by the evaluator, not here.
//!
//! ```
//! use reflex_tir::{DType, Expr, builder::FuncBuilder, verify::{IrForm, verify}};
//! let mut f = FuncBuilder::new("f");
//! let x = f.input("x", DType::F32, vec![4.into()]);
//! f.output("compute", "y", DType::F32, vec![4.into()], |f, i| f.at(x, i).cast(DType::F64));
//! let faults = verify(&f.finish(), IrForm::Scheduled).unwrap_err();
//! assert_eq!(faults[0].to_string(), "block `compute`: `y` holds float32, float64 is stored");
//! ```

mod gpu;
mod packed_call;
mod tile;

pub use self::gpu::verify_gpu;

use std::borrow::Cow;
use std::collections::HashSet;
use std::rc::Rc;

use rustc_hash::FxHashSet;

use crate::{
    Block, Buffer, DType, Expr, ExprKind, For, ForKind, IndexCheck, Intrin, Param, PrimFunc,
    Region, Scope, Stmt, Var,
};

/// Which of the two forms a function should be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IrForm {
    /// Blocks below loops.
    Scheduled,
    /// No block; what code generators take.
    Lowered,
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}")]
pub struct Fault {
    /// The innermost block or loop, or the function.
    pub at: String,
    /// The fault.
    pub what: String,
}

/// Checks `func`; the error lists every fault.
pub fn verify(func: &PrimFunc, form: IrForm) -> Result<(), Vec<Fault>> {
    let mut v = Verifier {
        func,
        form,
        at: vec![format!("function `{}`", func.name).into()],
        vars: FxHashSet::default(),
        buffers: FxHashSet::default(),
        bound: FxHashSet::default(),
        blocks: HashSet::new(),
        faults: vec![],
    };
    v.params();
    for buffer in &func.allocs {
        v.define_buffer(*buffer);
    }
    func.checks.iter().for_each(|check| v.check(check));
    v.stmt(&func.body);
    v.calls_in_order();
    if v.faults.is_empty() { Ok(()) } else { Err(v.faults) }
}

struct Verifier<'f> {
    func: &'f PrimFunc,
    form: IrForm,
    at: Vec<Rc<str>>,
    /// Variables and buffers in scope.
    vars: FxHashSet<Var>,
    buffers: FxHashSet<Buffer>,
    /// Variables and block names bound anywhere: in scheduled form each may be only once.
    bound: FxHashSet<Var>,
    blocks: HashSet<String>,
    faults: Vec<Fault>,
}

impl<'f> Verifier<'f> {
    fn fault(&mut self, what: impl Into<String>) {
        let at = self.at.last().expect("the function").to_string();
        self.faults.push(Fault { at, what: what.into() });
    }

    fn require(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.fault(what());
        }
    }

    fn var_name(&self, var: Var) -> Cow<'f, str> {
        let data = self.func.vars.get(var);
        data.map_or_else(|| var.to_string().into(), |v| Cow::Borrowed(&*v.name))
    }

    fn buffer_name(&self, buffer: Buffer) -> Cow<'f, str> {
        let data = self.func.buffers.get(buffer);
        data.map_or_else(|| buffer.to_string().into(), |b| b.name.as_str().into())
    }

    fn params(&mut self) {
        let func = self.func;
        let count = func.buffer_params().count();
        self.require(func.num_outputs <= count, || {
            format!("{} outputs among {count} tensor parameters", func.num_outputs)
        });
        for param in &func.params {
            match param {
                Param::Scalar(var) => self.define_var(*var),
                Param::Buffer(buffer) => {
                    // Shapes of parameters bind variables, so that they come before use.
                    let shape = func.buffers.get(*buffer).map_or(&[][..], |b| &b.shape);
                    for var in shape.iter().filter_map(Expr::as_var) {
                        if !self.vars.contains(&var) {
                            self.define_var(var);
                        }
                    }
                }
            }
        }
        func.buffer_params().for_each(|b| self.define_buffer(b));
    }

    fn check(&mut self, check: &IndexCheck) {
        let func = self.func;
        let inputs = func.buffer_params().count().saturating_sub(func.num_outputs);
        let name = self.buffer_name(check.buffer);
        let read = func.buffer_params().take(inputs).any(|b| b == check.buffer);
        self.require(read, || format!("checked indices `{name}` are no input"));
        let dtype = func.buffers.get(check.buffer).map(|b| b.dtype);
        self.require(matches!(dtype, Some(DType::I32 | DType::I64)), || {
            format!("checked indices `{name}` are neither int32 nor int64")
        });
        self.require(!check.bounds.is_empty(), || format!("no bound for the indices `{name}`"));
        for bound in &check.bounds {
            self.expr(bound);
            self.require(bound.dtype() == DType::I64, || {
                format!("a bound of `{name}` is {}, not int64", bound.dtype())
            });
        }
    }

    fn define_var(&mut self, var: Var) {
        let known = self.func.vars.get(var).is_some();
        self.require(known, || format!("there is no variable {var}"));
        let name = self.var_name(var);
        // Schedules name loops by variable; lowered code may repeat a loop elsewhere.
        let first = match self.form {
            IrForm::Scheduled => self.bound.insert(var),
            IrForm::Lowered => !self.vars.contains(&var),
        };
        self.require(first, || format!("`{name}` is bound twice"));
        self.vars.insert(var);
    }

    fn define_buffer(&mut self, buffer: Buffer) {
        let Some(data) = self.func.buffers.get(buffer) else {
            return self.fault(format!("there is no buffer {buffer}"));
        };
        let name = &data.name;
        for extent in &data.shape {
            self.expr(extent);
            self.require(extent.dtype() == DType::I64, || {
                format!("an extent of `{name}` is {}, not int64", extent.dtype())
            });
        }
        let first = self.buffers.insert(buffer);
        self.require(first, || format!("`{name}` is defined twice"));
    }

    fn inside(&mut self, at: impl Into<Rc<str>>, f: impl FnOnce(&mut Self)) {
        let (vars, buffers) = (self.vars.clone(), self.buffers.clone());
        self.at.push(at.into());
        f(self);
        self.at.pop();
        (self.vars, self.buffers) = (vars, buffers);
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(l) => self.for_loop(l),
            Stmt::Block(b) => self.block(b),
            Stmt::Store { buffer, indices, value } => {
                indices.iter().chain([value]).for_each(|e| self.expr(e));
                self.access(*buffer, indices);
                self.store(*buffer, value);
            }
            Stmt::If { cond, then, otherwise } => {
                self.condition(cond, || "if".into());
                self.stmt(then);
                if let Some(otherwise) = otherwise {
                    self.stmt(otherwise);
                }
            }
            Stmt::While { cond, body } => {
                self.condition(cond, || "while".into());
                self.stmt(body);
            }
            Stmt::Let { var, value, body } => {
                self.expr(value);
                let at = self.at.last().expect("the function").clone();
                self.inside(at, |v| {
                    v.define_var(*var);
                    let holds = v.func.vars.get(*var).map(|d| d.dtype);
                    v.require(holds.is_none_or(|d| d == value.dtype()), || {
                        format!("a scalar of another type than its value {value:?}")
                    });
                    v.stmt(body);
                });
            }
            Stmt::Allocate { buffer, body } => {
                let at = self.at.last().expect("the function").clone();
                self.inside(at, |v| {
                    v.define_buffer(*buffer);
                    v.lowered_buffer(*buffer);
                    v.stmt(body);
                });
            }
            Stmt::Tile(tile) => self.tile(tile),
            Stmt::CallPacked(call) => self.call_packed(call),
            Stmt::Barrier(_) => {
                let allowed = self.form == IrForm::Lowered;
                self.require(allowed, || "a barrier in scheduled form".into());
            }
            Stmt::Seq(list) => list.iter().for_each(|s| self.stmt(s)),
        }
    }

    fn lowered_buffer(&mut self, buffer: Buffer) {
        let Some(data) = self.func.buffers.get(buffer) else { return };
        let constant = data.shape.iter().all(|e| e.as_int().is_some());
        let needs = data.scope != Scope::Global;
        if data.scope == Scope::Tile {
            self.register(buffer);
        }
        self.require(constant || !needs, || {
            format!("`{}` in {:?} memory has no constant shape", data.name, data.scope)
        });
    }

    fn condition(&mut self, cond: &Expr, of: impl FnOnce() -> String) {
        self.expr(cond);
        self.require(cond.dtype() == DType::BOOL, || {
            format!("the condition of `{}` is {}", of(), cond.dtype())
        });
    }

    fn stored(&mut self, buffer: Buffer) {
        let name = self.buffer_name(buffer);
        let inputs = self.func.buffer_params().count().saturating_sub(self.func.num_outputs);
        let is_input = self.func.buffer_params().take(inputs).any(|b| b == buffer);
        self.require(!is_input, || format!("`{name}` is an input and is stored to"));
    }

    fn store(&mut self, buffer: Buffer, value: &Expr) {
        self.stored(buffer);
        let name = self.buffer_name(buffer);
        let holds = self.func.buffers.get(buffer).map_or(value.dtype(), |b| b.dtype);
        self.require(holds == value.dtype(), || {
            format!("`{name}` holds {holds}, {} is stored", value.dtype())
        });
    }

    fn for_loop(&mut self, l: &For) {
        [&l.min, &l.extent].into_iter().for_each(|e| self.expr(e));
        self.inside(format!("loop `{}`", self.var_name(l.var)), |v| {
            v.define_var(l.var);
            let types = [l.min.dtype(), l.extent.dtype()];
            let of_var = v.func.vars.get(l.var).map_or(DType::I64, |d| d.dtype);
            v.require(types == [DType::I64; 2] && of_var == DType::I64, || {
                "variable, minimum and extent are not all int64".into()
            });
            let unroll = matches!(l.kind, ForKind::Vectorized | ForKind::Unrolled);
            v.require(!unroll || l.extent.as_int().is_some(), || {
                format!("a {:?} loop needs a constant extent", l.kind)
            });
            v.stmt(&l.body);
        });
    }

    fn block(&mut self, b: &Block) {
        let allowed = self.form == IrForm::Scheduled;
        self.require(allowed, || format!("block `{}` in lowered form", b.name));
        let fresh = self.blocks.insert(b.name.clone());
        self.require(fresh, || format!("two blocks are called `{}`", b.name));
        for iter in &b.iters {
            self.expr(&iter.extent);
            self.expr(&iter.value);
        }
        self.condition(&b.predicate, || format!("where of {}", b.name));
        self.inside(format!("block `{}`", b.name), |v| {
            for iter in &b.iters {
                let name = v.var_name(iter.var);
                v.define_var(iter.var);
                v.require(
                    iter.extent.dtype() == DType::I64 && iter.value.dtype() == DType::I64,
                    || format!("iterator `{name}` is not int64"),
                );
            }
            b.allocs.iter().for_each(|x| v.define_buffer(*x));
            b.reads.iter().chain(&b.writes).for_each(|r| v.region(r));
            b.init.iter().for_each(|s| v.stmt(s));
            v.stmt(&b.body);
        });
    }

    fn region(&mut self, r: &Region) {
        let name = self.buffer_name(r.buffer);
        let known = self.buffers.contains(&r.buffer);
        self.require(known, || format!("a region names `{name}`, which is not in scope"));
        let rank = self.func.buffers.get(r.buffer).map_or(0, |b| b.shape.len());
        self.require(!known || r.ranges.len() == rank, || {
            format!("a region of `{name}` has {} ranges for {rank} dimensions", r.ranges.len())
        });
        for (min, extent) in &r.ranges {
            self.expr(min);
            self.expr(extent);
        }
    }

    fn access(&mut self, buffer: Buffer, indices: &[Expr]) {
        let name = self.buffer_name(buffer);
        if !self.buffers.contains(&buffer) {
            return self.fault(format!("buffer `{name}` is not in scope"));
        }
        let rank = self.func.buffers[buffer].shape.len();
        self.require(indices.len() == rank || indices.len() == 1, || {
            format!("`{name}` has {rank} dimensions and {} indices", indices.len())
        });
        for index in indices {
            self.require(index.dtype() == DType::I64, || {
                format!("an index of `{name}` is {}, not int64", index.dtype())
            });
        }
    }

    /// Checks an expression bottom-up; `dtype` of a child may be asked once it was checked.
    fn expr(&mut self, e: &Expr) {
        e.for_each_child(&mut |c| self.expr(c));
        match e.kind() {
            ExprKind::Int { dtype, .. } => {
                let fits = dtype.is_int() || dtype.is_uint() || dtype.is_bool();
                self.require(fits && dtype.is_scalar(), || format!("an integer of type {dtype}"));
            }
            ExprKind::Float { dtype, .. } => {
                self.require(dtype.is_float() && dtype.is_scalar(), || {
                    format!("a float of type {dtype}")
                });
            }
            ExprKind::Var { var, dtype } => {
                let name = self.var_name(*var);
                let known = self.vars.contains(var);
                self.require(known, || format!("variable `{name}` is not in scope"));
                let holds = self.func.vars.get(*var).map_or(*dtype, |d| d.dtype);
                self.require(holds == *dtype, || format!("`{name}` is {holds}, read as {dtype}"));
            }
            ExprKind::Binary { a, b, .. } => {
                self.same("operands", a, b);
                self.require(!a.dtype().is_bool(), || format!("arithmetic on bool: {e:?}"));
            }
            ExprKind::Compare { a, b, .. } => self.same("operands", a, b),
            ExprKind::And(..) | ExprKind::Or(..) | ExprKind::Not(_) => {
                let bools = e.children().iter().all(|c| c.dtype().is_bool());
                self.require(bools, || format!("logic on something other than bool: {e:?}"));
            }
            ExprKind::Select { cond, on_true, on_false } => {
                self.require(cond.dtype().is_bool(), || format!("the condition of {e:?}"));
                self.same("sides", on_true, on_false);
            }
            ExprKind::Cast { dtype, value } => {
                let is_number = |t: DType| {
                    let known = t.is_int() || t.is_uint() || t.is_bool() || t.is_float();
                    known && t.is_scalar()
                };
                let fits = is_number(*dtype) && is_number(value.dtype());
                self.require(fits, || format!("a cast from {} to {dtype}", value.dtype()));
            }
            ExprKind::Load { buffer, indices, dtype } => {
                self.access(*buffer, indices);
                let holds = self.func.buffers.get(*buffer).map_or(*dtype, |b| b.dtype);
                let name = self.buffer_name(*buffer);
                self.require(holds == *dtype, || {
                    format!("`{name}` holds {holds}, is loaded as {dtype}")
                });
            }
            ExprKind::Call { op, args, dtype } => self.call(*op, args, *dtype),
        }
    }

    fn same(&mut self, what: &str, a: &Expr, b: &Expr) {
        self.require(a.dtype() == b.dtype(), || {
            format!("{what} of types {} and {}: {a:?}, {b:?}", a.dtype(), b.dtype())
        });
    }

    fn call(&mut self, op: Intrin, args: &[Expr], dtype: DType) {
        let signature = signature(op);
        if args.len() != signature.arity {
            return self.fault(format!("{op:?} of {} operands", args.len()));
        }
        let types: Vec<DType> = args.iter().map(Expr::dtype).collect();
        if op == Intrin::PairBf16 {
            let halves = types == [DType::F32; 2] || types == [DType::BF16; 2];
            let fits = halves && dtype == DType::U32;
            return self.require(fits, || format!("a pair of {types:?}, called {dtype}"));
        }
        if op == Intrin::DotBf16 {
            let fits = types == [DType::U32, DType::U32, DType::F32] && dtype == DType::F32;
            return self.require(fits, || format!("{op:?} of {types:?} giving {dtype}"));
        }
        if let Intrin::DotI8 { .. } | Intrin::DotI16 = op {
            let fits = types == [DType::U32, DType::U32, DType::I32] && dtype == DType::I32;
            return self.require(fits, || format!("{op:?} of {types:?} giving {dtype}"));
        }
        if op == Intrin::Pack4x8 {
            let bytes = types == [DType::U8; 4] || types == [DType::I8; 4];
            let fits = bytes && dtype == DType::U32;
            return self.require(fits, || format!("a word of {types:?}, called {dtype}"));
        }
        let operands = match op {
            Intrin::IfThenElse => &types[1..],
            Intrin::Prefetch => &types[..1],
            _ => &types[..],
        };
        let uniform = operands.iter().all(|t| *t == operands[0]);
        let result = match signature.result {
            Returns::Operand => operands[0] == dtype,
            Returns::Bool => dtype == DType::BOOL,
            Returns::SameWidth => dtype.bits == operands[0].bits,
        };
        let domain = match signature.domain {
            Domain::Any => true,
            Domain::Float => operands[0].is_float(),
            Domain::Integer => !operands[0].is_float(),
        };
        let other = match op {
            Intrin::IfThenElse => types[0].is_bool(),
            Intrin::Prefetch => types[1] == DType::I64,
            _ => true,
        };
        self.require(uniform && result && domain && other, || {
            format!("{op:?} of {types:?} giving {dtype}")
        });
    }
}

enum Returns {
    Operand,
    Bool,
    SameWidth,
}

enum Domain {
    Any,
    Float,
    Integer,
}

struct Signature {
    arity: usize,
    domain: Domain,
    result: Returns,
}

impl Intrin {
    /// Number of operands.
    pub fn arity(self) -> usize {
        signature(self).arity
    }

    /// Whether operands may be integers.
    pub fn takes_integers(self) -> bool {
        match signature(self).domain {
            Domain::Any | Domain::Integer => true,
            Domain::Float => false,
        }
    }
}

fn signature(op: Intrin) -> Signature {
    let of = |arity, domain, result| Signature { arity, domain, result };
    match op {
        Intrin::IfThenElse => of(3, Domain::Any, Returns::Operand),
        Intrin::Fma => of(3, Domain::Float, Returns::Operand),
        // Two VNNI pairs and an accumulator: checked where it is called.
        Intrin::DotBf16 => of(3, Domain::Any, Returns::Operand),
        Intrin::PairBf16 => of(2, Domain::Float, Returns::Operand),
        // Words of integers: checked where they are called.
        Intrin::DotI8 { .. } | Intrin::DotI16 => of(3, Domain::Integer, Returns::Operand),
        Intrin::Pack4x8 => of(4, Domain::Integer, Returns::Operand),
        Intrin::Pow => of(2, Domain::Float, Returns::Operand),
        Intrin::Abs => of(1, Domain::Any, Returns::Operand),
        Intrin::Prefetch => of(2, Domain::Any, Returns::Operand),
        Intrin::IsNan | Intrin::IsInf => of(1, Domain::Float, Returns::Bool),
        Intrin::Reinterpret => of(1, Domain::Any, Returns::SameWidth),
        Intrin::Shl | Intrin::Shr | Intrin::BitAnd | Intrin::BitOr | Intrin::BitXor => {
            of(2, Domain::Integer, Returns::Operand)
        }
        Intrin::BitNot => of(1, Domain::Integer, Returns::Operand),
        Intrin::Exp
        | Intrin::Log
        | Intrin::Sqrt
        | Intrin::Sin
        | Intrin::Cos
        | Intrin::Tan
        | Intrin::Asin
        | Intrin::Acos
        | Intrin::Atan
        | Intrin::Sinh
        | Intrin::Cosh
        | Intrin::Tanh
        | Intrin::Asinh
        | Intrin::Acosh
        | Intrin::Atanh
        | Intrin::Erf
        | Intrin::Floor
        | Intrin::Ceil
        | Intrin::Trunc
        | Intrin::Round => of(1, Domain::Float, Returns::Operand),
    }
}
