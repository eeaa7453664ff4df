//! Reference evaluator: what a [`PrimFunc`] means, in either form, one operation at a time.
//!
//! It is the oracle that schedules, passes and code generators are compared with, so it is
//! plain rather than fast: loops of every kind run in order, every index is checked, reading an
//! intermediate that was never written is an error, and a run has fuel. [`eval_threads`] runs loops
//! over blocks and threads of a GPU as such, in an order that is asked for, and finds races and
//! barriers that some threads do not come to. Nothing that serves users calls it.
//!
//! ```
//! use reflex_tir::{DType, Expr, builder::FuncBuilder, eval};
//! let mut f = FuncBuilder::new("twice");
//! let x = f.input("x", DType::F32, vec![2.into()]);
//! f.output("compute", "y", DType::F32, vec![2.into()], |f, i| f.at(x, i) + f.at(x, i));
//! let mut args = [
//!     eval::EvalArg::Tensor(eval::EvalTensor::f32(&[2], &[1.0, 2.5])),
//!     eval::EvalArg::Tensor(eval::EvalTensor::zeros(DType::F32, &[2])),
//! ];
//! eval::eval(&f.finish(), &mut args).unwrap();
//! assert_eq!(args[1].tensor().to_f32(), [2.0, 5.0]);
//! ```

mod box_copy;
mod error;
mod memory;
mod packed_call;
mod race;
pub mod scalar;
mod tensor;
mod threads;
mod tile;

use cranelift_entity::SecondaryMap;
pub use error::{EvalError, EvalErrorKind};
pub use scalar::Scalar;
pub use tensor::{EvalArg, EvalTensor};
pub use threads::ThreadOrder;

use self::memory::Memory;
use self::race::Races;
use crate::launch::Launch;
use crate::{
    Block, Buffer, Expr, ExprKind, For, IndexCheck, Intrin, IterKind, Param, PrimFunc, Stmt, Var,
};

/// Steps (statements executed) that [`eval`] grants.
pub const DEFAULT_FUEL: u64 = 1 << 32;

/// Runs `func` on `args`, one per parameter; outputs are written in place.
pub fn eval(func: &PrimFunc, args: &mut [EvalArg]) -> Result<(), EvalError> {
    eval_with_fuel(func, args, DEFAULT_FUEL)
}

/// [`eval`] with a step limit.
pub fn eval_with_fuel(func: &PrimFunc, args: &mut [EvalArg], fuel: u64) -> Result<(), EvalError> {
    run(func, args, fuel, None)
}

/// Runs a lowered `func` with the blocks and threads of a GPU, in `order`. A race, a barrier that
/// not all threads come to, and reading memory that nothing has written are errors.
pub fn eval_threads(
    func: &PrimFunc,
    args: &mut [EvalArg],
    order: ThreadOrder,
) -> Result<(), EvalError> {
    run(func, args, DEFAULT_FUEL, Some(order))
}

fn run(
    func: &PrimFunc,
    args: &mut [EvalArg],
    fuel: u64,
    order: Option<ThreadOrder>,
) -> Result<(), EvalError> {
    let (vars, memory) = (SecondaryMap::new(), SecondaryMap::new());
    let mut m = Evaluator { func, vars, memory, fuel, order, races: None };
    let outcome = m.bind(args).and_then(|()| {
        for buffer in &func.allocs {
            m.allocate(*buffer)?;
        }
        func.checks.iter().try_for_each(|check| m.check(check))?;
        m.run(&func.body)
    });
    m.unbind(args);
    outcome.map_err(|reason| EvalError { func: func.name.clone(), reason })
}

/// Evaluates an expression without loads over given variable values.
pub fn eval_expr(
    expr: &Expr,
    var: &dyn Fn(Var) -> Option<Scalar>,
) -> Result<Scalar, EvalErrorKind> {
    evaluate(
        expr,
        &|v| var(v).ok_or_else(|| EvalErrorKind::Undefined(format!("variable {v}"))),
        &|b, _| Err(EvalErrorKind::Undefined(format!("buffer {b}"))),
    )
}

struct Evaluator<'f> {
    func: &'f PrimFunc,
    vars: SecondaryMap<Var, Option<Scalar>>,
    memory: SecondaryMap<Buffer, Option<Memory>>,
    fuel: u64,
    /// Of blocks and threads; `None` where loops over them run like others.
    order: Option<ThreadOrder>,
    /// The accesses of threads, while some run.
    races: Option<Races<'f>>,
}

type Done = Result<(), EvalErrorKind>;

impl<'f> Evaluator<'f> {
    fn bind(&mut self, args: &mut [EvalArg]) -> Done {
        if args.len() != self.func.params.len() {
            let (want, got) = (self.func.params.len(), args.len());
            return Err(EvalErrorKind::Argument(format!("{want} parameters, {got} arguments")));
        }
        for (param, arg) in self.func.params.iter().zip(args.iter_mut()) {
            match (param, arg) {
                (Param::Scalar(v), EvalArg::Scalar(value)) => self.vars[*v] = Some(*value),
                (Param::Buffer(b), EvalArg::Tensor(tensor)) => {
                    self.bind_symbols(*b, tensor)?;
                    let tensor = std::mem::take(tensor);
                    self.memory[*b] = Some(Memory { tensor, written: None });
                }
                (param, _) => {
                    return Err(EvalErrorKind::Argument(format!(
                        "wrong kind of argument for {param:?}"
                    )));
                }
            }
        }
        for buffer in self.func.buffer_params() {
            self.check_shape(buffer)?;
        }
        Ok(())
    }

    /// Gives tensors back to the caller, also after a failure.
    fn unbind(&mut self, args: &mut [EvalArg]) {
        for (param, arg) in self.func.params.iter().zip(args) {
            if let (Param::Buffer(b), EvalArg::Tensor(slot)) = (param, arg)
                && let Some(memory) = self.memory[*b].take()
            {
                *slot = memory.tensor;
            }
        }
    }

    fn bind_symbols(&mut self, buffer: Buffer, tensor: &EvalTensor) -> Done {
        let data = &self.func.buffers[buffer];
        if tensor.dtype != data.dtype || tensor.shape.len() != data.shape.len() {
            return Err(EvalErrorKind::Argument(format!(
                "buffer `{}` is {} of {} dimensions, given {} of {}",
                data.name,
                data.dtype,
                data.shape.len(),
                tensor.dtype,
                tensor.shape.len()
            )));
        }
        for (extent, given) in data.shape.iter().zip(&tensor.shape) {
            if let Some(var) = extent.as_var()
                && self.vars[var].is_none()
            {
                self.vars[var] = Some(Scalar::Int(*given));
            }
        }
        Ok(())
    }

    fn check_shape(&mut self, buffer: Buffer) -> Done {
        let shape = self.shape(buffer)?;
        let given = &self.memory[buffer].as_ref().expect("bound above").tensor.shape;
        if *given != shape {
            let name = &self.func.buffers[buffer].name;
            return Err(EvalErrorKind::Argument(format!(
                "buffer `{name}` has shape {shape:?}, given {given:?}"
            )));
        }
        Ok(())
    }

    fn check(&self, check: &IndexCheck) -> Done {
        let tensor = &self.memory[check.buffer].as_ref().expect("a bound parameter").tensor;
        let bounds: Vec<i64> =
            check.bounds.iter().map(|e| self.int(e)).collect::<Result<_, _>>()?;
        // The first bound's indices are checked first, as compiled code does.
        for (first, bound) in bounds.iter().enumerate() {
            let count = tensor.shape.iter().product::<i64>() as usize;
            for at in (first..count).step_by(bounds.len()) {
                let index = tensor.get(at)?.as_int()?;
                if !(-bound..*bound).contains(&index) {
                    let message = check.message();
                    return Err(EvalErrorKind::Index(format!(
                        "{message}{index} is out of range for an axis of {bound}"
                    )));
                }
            }
        }
        Ok(())
    }

    fn eval(&self, expr: &Expr) -> Result<Scalar, EvalErrorKind> {
        let var = |v: Var| {
            self.vars[v].ok_or_else(|| {
                EvalErrorKind::Undefined(format!("variable `{}`", self.func.vars[v].name))
            })
        };
        evaluate(expr, &var, &|buffer, at| self.get(buffer, at))
    }

    fn int(&self, expr: &Expr) -> Result<i64, EvalErrorKind> {
        self.eval(expr)?.as_int()
    }

    /// Notes the statement that accesses from here on belong to.
    fn at(&mut self, stmt: &'f Stmt) -> &mut Self {
        if let Some(races) = &mut self.races {
            races.reach(stmt);
        }
        self
    }

    fn run(&mut self, stmt: &'f Stmt) -> Done {
        self.fuel = self.fuel.checked_sub(1).ok_or(EvalErrorKind::Fuel)?;
        if let Some(order) = self.order.filter(|_| self.races.is_none())
            && let Some(launch) = Launch::of(stmt)
        {
            return self.run_launch(&launch, order);
        }
        self.at(stmt);
        match stmt {
            Stmt::For(l) => self.run_for(l),
            Stmt::Block(b) => self.run_block(b),
            Stmt::Store { buffer, indices, value } => {
                let at = indices.iter().map(|i| self.int(i)).collect::<Result<Vec<_>, _>>()?;
                let value = self.eval(value)?;
                self.put(*buffer, &at, value)
            }
            Stmt::If { cond, then, otherwise } => match (self.int(cond)? != 0, otherwise) {
                (true, _) => self.run(then),
                (false, Some(otherwise)) => self.run(otherwise),
                (false, None) => Ok(()),
            },
            Stmt::Let { var, value, body } => {
                let value = self.eval(value)?;
                let before = self.vars[*var].replace(value);
                self.run(body)?;
                self.vars[*var] = before;
                Ok(())
            }
            Stmt::Allocate { buffer, body } => {
                self.allocate(*buffer)?;
                self.run(body)?;
                self.memory[*buffer] = None;
                Ok(())
            }
            Stmt::While { cond, body } => {
                while self.at(stmt).int(cond)? != 0 {
                    self.run(body)?;
                }
                Ok(())
            }
            Stmt::Tile(tile) => self.run_tile(tile),
            Stmt::CallPacked(call) => self.call_packed(call),
            Stmt::Barrier(_) => Err(EvalErrorKind::Barrier("no threads come to it".into())),
            Stmt::Seq(list) => list.iter().try_for_each(|s| self.run(s)),
        }
    }

    fn run_for(&mut self, l: &'f For) -> Done {
        let (min, extent) = (self.int(&l.min)?, self.int(&l.extent)?);
        let before = self.vars[l.var];
        for i in min..min.saturating_add(extent) {
            self.vars[l.var] = Some(Scalar::Int(i));
            self.run(&l.body)?;
        }
        self.vars[l.var] = before;
        Ok(())
    }

    fn run_block(&mut self, b: &'f Block) -> Done {
        if self.int(&b.predicate)? == 0 {
            return Ok(());
        }
        let mut first = true;
        let mut values = vec![];
        for iter in &b.iters {
            let (value, extent) = (self.int(&iter.value)?, self.int(&iter.extent)?);
            if !(0..extent).contains(&value) {
                let name = &self.func.vars[iter.var].name;
                return Err(EvalErrorKind::Bounds(format!(
                    "iterator `{name}` of block `{}` is {value}, its extent {extent}",
                    b.name
                )));
            }
            first &= iter.kind != IterKind::Reduce || value == 0;
            values.push(value);
        }
        for (iter, value) in b.iters.iter().zip(values) {
            self.vars[iter.var] = Some(Scalar::Int(value));
        }
        for buffer in &b.allocs {
            self.allocate(*buffer)?;
        }
        if first && let Some(init) = &b.init {
            self.run(init)?;
        }
        self.run(&b.body)?;
        for iter in &b.iters {
            self.vars[iter.var] = None;
        }
        for buffer in &b.allocs {
            self.memory[*buffer] = None;
        }
        Ok(())
    }
}

type ReadVar<'a> = dyn Fn(Var) -> Result<Scalar, EvalErrorKind> + 'a;
type ReadBuffer<'a> = dyn Fn(Buffer, &[i64]) -> Result<Scalar, EvalErrorKind> + 'a;

fn evaluate(
    expr: &Expr,
    var: &ReadVar<'_>,
    load: &ReadBuffer<'_>,
) -> Result<Scalar, EvalErrorKind> {
    let eval = |e: &Expr| evaluate(e, var, load);
    let test = |e: &Expr| evaluate(e, var, load)?.as_int().map(|x| x != 0);
    match expr.kind() {
        ExprKind::Int { value, dtype } => Scalar::int(*value, *dtype),
        ExprKind::Float { bits, dtype } => Scalar::float(f64::from_bits(*bits), *dtype),
        ExprKind::Var { var: v, .. } => var(*v),
        ExprKind::Binary { op, a, b } => scalar::binary(*op, eval(a)?, eval(b)?, a.dtype()),
        ExprKind::Compare { op, a, b } => {
            Ok(Scalar::Int(i64::from(scalar::compare(*op, eval(a)?, eval(b)?, a.dtype()))))
        }
        ExprKind::And(a, b) => Ok(Scalar::Int(i64::from(test(a)? & test(b)?))),
        ExprKind::Or(a, b) => Ok(Scalar::Int(i64::from(test(a)? | test(b)?))),
        ExprKind::Not(a) => Ok(Scalar::Int(i64::from(!test(a)?))),
        ExprKind::Select { cond, on_true, on_false } => {
            let (a, b) = (eval(on_true)?, eval(on_false)?);
            Ok(if test(cond)? { a } else { b })
        }
        ExprKind::Cast { dtype, value } => scalar::cast(eval(value)?, value.dtype(), *dtype),
        ExprKind::Load { buffer, indices, .. } => {
            let at = indices.iter().map(|i| eval(i)?.as_int()).collect::<Result<Vec<_>, _>>()?;
            load(*buffer, &at)
        }
        ExprKind::Call { op: Intrin::IfThenElse, args, .. } => {
            let [cond, a, b] = &args[..] else {
                return Err(EvalErrorKind::Type("if_then_else takes three operands".into()));
            };
            if test(cond)? { eval(a) } else { eval(b) }
        }
        ExprKind::Call { op, args, dtype } => {
            let values = args.iter().map(eval).collect::<Result<Vec<_>, _>>()?;
            let from = args.first().map_or(*dtype, Expr::dtype);
            scalar::intrinsic(*op, &values, from, *dtype)
        }
    }
}
