//! Instructions of one function: allocation, calls, views, constants.

use std::collections::{BTreeSet, HashMap, HashSet};

use reflex_graph::{
    Binding, Body, Const, DataOp, Func, FuncData, FuncId, LeafExpr, Module, Node, Op, Type, Value,
};
use reflex_tir::{DType, Expr, PrimFunc, Var};
use reflex_vm::builder::ExecBuilder;
use reflex_vm::bytecode::{Arg, Reg};
use reflex_vm::executable::{ConstData, TensorConst};

use super::memory_plan::{MemoryPlan, StorageSlot, plan};
use super::shape_heap::{ShapeHeap, reshape_counts};
use crate::LowerError;

pub(super) type Result<T> = std::result::Result<T, LowerError>;

/// `make_shape` and `make_prim_value`: take the number itself, or a heap entry.
const USE_IMM: i64 = 0;
const LOAD_SHAPE: i64 = 1;

/// Emits one function.
pub(super) struct Emitter<'a> {
    pub(super) module: &'a Module,
    pub(super) func: &'a Func,
    pub(super) b: &'a mut ExecBuilder,
    pub(super) heap: ShapeHeap,
    /// The heap's register, or None when there are no symbolic dimensions.
    pub(super) heap_arg: Arg,
    pub(super) plan: MemoryPlan,
    /// Where values are.
    pub(super) at: HashMap<Value, Arg>,
    /// Dimensions whose heap entries are filled in.
    pub(super) known: BTreeSet<Var>,
    /// Shapes made so far, by body.
    pub(super) shapes: Vec<HashMap<Vec<Expr>, Arg>>,
    next: u32,
    arena: Option<Arg>,
    storages: HashMap<usize, Arg>,
    shape_funcs: &'a mut Vec<PrimFunc>,
    names: &'a mut HashSet<String>,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(
        module: &'a Module,
        func: &'a Func,
        b: &'a mut ExecBuilder,
        shape_funcs: &'a mut Vec<PrimFunc>,
        names: &'a mut HashSet<String>,
    ) -> Emitter<'a> {
        Emitter {
            module,
            func,
            heap: ShapeHeap::of(func),
            heap_arg: b.void_arg(),
            plan: plan(func),
            at: HashMap::new(),
            known: BTreeSet::new(),
            shapes: vec![HashMap::new()],
            next: func.params.len() as u32,
            arena: None,
            storages: HashMap::new(),
            b,
            shape_funcs,
            names,
        }
    }

    pub(super) fn function(&mut self) -> Result<()> {
        let func = self.func;
        let params: Vec<&str> = func.params.iter().map(|v| func.values[*v].name.as_str()).collect();
        self.b.function_with_params(&func.name, &params)?;
        for (n, value) in func.params.iter().enumerate() {
            self.at.insert(*value, self.b.r(n as u32));
        }
        if self.heap.len() > 0 {
            self.heap_arg = self.fresh();
            let args = [self.b.vm_state(), self.b.int(self.heap.len() as i64)];
            self.b.emit_call("vm.builtin.alloc_shape_heap", &args, self.heap_arg)?;
        }
        self.check_params()?;
        if self.plan.arena > 0 {
            let arena = self.fresh();
            let size = self.b.shape(&[self.plan.arena]);
            self.alloc_storage(size, DType::U8, arena)?;
            self.arena = Some(arena);
        }
        self.body(&func.body)?;
        let result = self.result(&func.body.results)?;
        self.b.emit_ret(result)?;
        Ok(self.b.end_function()?)
    }

    /// The register that holds the function's result: the value itself, or a tuple.
    fn result(&mut self, results: &[Value]) -> Result<Reg> {
        let arg = match results {
            [only] => match self.arg(*only)? {
                reg @ Arg::Reg(_) => reg,
                other => self.copy(other)?,
            },
            many => {
                let items = self.args(many)?;
                self.call("vm.builtin.make_tuple", &items)?
            }
        };
        let Arg::Reg(reg) = arg else {
            return Err(LowerError::internal("a result without register"));
        };
        Ok(reg)
    }

    /// Emits the bindings of a body and clears registers after their last use.
    pub(super) fn body(&mut self, body: &Body) -> Result<()> {
        let mut last: HashMap<Value, usize> = HashMap::new();
        for (n, binding) in body.bindings.iter().enumerate() {
            binding.outputs.iter().for_each(|v| {
                last.insert(*v, n);
            });
            binding.uses(&mut |v| {
                last.entry(v).and_modify(|at| *at = n);
            });
        }
        body.results.iter().for_each(|v| {
            last.remove(v);
        });
        let mut dying: Vec<Vec<Value>> = vec![vec![]; body.bindings.len()];
        last.into_iter().for_each(|(value, n)| dying[n].push(value));
        for (binding, mut dead) in body.bindings.iter().zip(dying) {
            self.binding(binding).map_err(|e| match binding.source.as_str() {
                "" => e,
                source => LowerError::new(e.kind(), format!("node {source}: {e}")),
            })?;
            dead.sort_unstable();
            self.kill(&dead)?;
        }
        Ok(())
    }

    /// Clears the registers of values that are not needed any more and hold memory.
    pub(super) fn kill(&mut self, dead: &[Value]) -> Result<()> {
        for value in dead {
            if let Some(Arg::Reg(reg)) = self.at.get(value)
                && !self.plan.in_arena(*value)
            {
                let shared = self.at.values().filter(|a| **a == Arg::Reg(*reg)).count() > 1;
                let param = self.func.params.iter().any(|p| self.at[p] == Arg::Reg(*reg));
                if !shared && !param {
                    self.b.emit_call("vm.builtin.null_value", &[], *reg)?;
                }
            }
            self.at.remove(value);
        }
        Ok(())
    }

    pub(super) fn fresh(&mut self) -> Arg {
        self.next += 1;
        self.b.r(self.next - 1)
    }

    /// A value as an argument: its register or constant.
    pub(super) fn arg(&mut self, value: Value) -> Result<Arg> {
        self.at
            .get(&value)
            .copied()
            .ok_or_else(|| LowerError::internal(format!("{value} has no register")))
    }

    pub(super) fn args(&mut self, values: &[Value]) -> Result<Vec<Arg>> {
        values.iter().map(|v| self.arg(*v)).collect()
    }

    /// Emits a call with a fresh destination.
    pub(super) fn call(&mut self, name: &str, args: &[Arg]) -> Result<Arg> {
        let dst = self.fresh();
        self.b.emit_call(name, args, dst)?;
        Ok(dst)
    }

    pub(super) fn copy(&mut self, arg: Arg) -> Result<Arg> {
        self.call("vm.builtin.copy", &[arg])
    }

    fn binding(&mut self, binding: &Binding) -> Result<()> {
        let outputs = &binding.outputs;
        match &binding.node {
            Node::Const(id) => {
                let constant = self.constant(*id);
                self.at.insert(outputs[0], constant);
                Ok(())
            }
            Node::Leaf(leaf) => {
                let arg = self.leaf(leaf)?;
                self.at.insert(outputs[0], arg);
                Ok(())
            }
            Node::Op { op: Op::Reshape(shape), args } => {
                let view = self.view(args[0], shape, &binding.source)?;
                self.at.insert(outputs[0], view);
                Ok(())
            }
            Node::Op { op, .. } => {
                Err(LowerError::internal(format!("operator {op:?} was not made a kernel")))
            }
            Node::CallTir { func, args, scalars } => self.call_tir(*func, args, scalars, outputs),
            Node::CallFunc { func, args } => self.call_func(*func, args, outputs),
            Node::CallPacked { name, args, ints } => {
                let mut args = self.args(args)?;
                for int in ints {
                    args.push(self.scalar(int)?);
                }
                let result = self.call(name, &args)?;
                self.unpack(result, outputs)?;
                outputs.iter().try_for_each(|v| self.check_value(*v, name))
            }
            Node::If { cond, then, otherwise } => self.branch(*cond, then, otherwise, outputs),
            Node::Loop(l) => self.run_loop(l, outputs),
            Node::Tuple(items) => {
                let items = self.args(items)?;
                let tuple = self.call("vm.builtin.make_tuple", &items)?;
                self.at.insert(outputs[0], tuple);
                Ok(())
            }
            Node::TupleGet(tuple, index) => {
                let args = [self.arg(*tuple)?, self.b.int(*index as i64)];
                let item = self.call("vm.builtin.tuple_getitem", &args)?;
                self.at.insert(outputs[0], item);
                Ok(())
            }
            Node::Data { op, constructor, args } => {
                let value = self.data(*op, constructor.index as i64, args)?;
                self.at.insert(outputs[0], value);
                Ok(())
            }
            Node::MatchCast(value) => {
                let arg = self.arg(*value)?;
                self.at.insert(outputs[0], arg);
                self.match_cast(outputs[0], *value, &binding.source)
            }
            Node::MatchShape { value, dims } => {
                let arg = self.arg(*value)?;
                self.at.insert(outputs[0], arg);
                self.match_elements(outputs[0], dims, &binding.source)
            }
        }
    }

    /// A value of a data type is a tuple, headed by the number of its constructor.
    fn data(&mut self, op: DataOp, tag: i64, args: &[Value]) -> Result<Arg> {
        let mut args = self.args(args)?;
        match op {
            DataOp::Construct => {
                args.insert(0, self.b.int(tag));
                self.call("vm.builtin.make_tuple", &args)
            }
            DataOp::Is => {
                args.push(self.b.int(tag));
                self.call("relay.is", &args)
            }
            DataOp::Field(index) => {
                args.push(self.b.int(index as i64 + 1));
                self.call("vm.builtin.tuple_getitem", &args)
            }
        }
    }

    /// A leaf as an argument. One that needs a register gets a register of its own.
    fn leaf(&mut self, leaf: &LeafExpr) -> Result<Arg> {
        Ok(match leaf {
            LeafExpr::Shape(dims) => match self.shape(dims)? {
                made @ Arg::Reg(_) => self.copy(made)?,
                constant => constant,
            },
            LeafExpr::Int(e) => self.scalar(e)?,
            LeafExpr::Float(x) => self.b.float(*x),
            LeafExpr::Str(text) => self.b.string(text),
            LeafExpr::DType(dtype) => self.b.dtype(*dtype),
            LeafExpr::Func(func) => self.b.f(self.module.funcs[*func].name()),
            LeafExpr::Null => self.call("vm.builtin.null_value", &[])?,
            LeafExpr::VmState => self.b.vm_state(),
        })
    }

    fn call_func(&mut self, func: FuncId, args: &[Value], outputs: &[Value]) -> Result<()> {
        let args = self.args(args)?;
        let result = self.call(self.module.funcs[func].name(), &args)?;
        self.unpack(result, outputs)?;
        outputs.iter().try_for_each(|v| self.bind_dims(*v))
    }

    fn constant(&mut self, id: Const) -> Arg {
        let literal = &self.module.consts[id];
        let tensor = TensorConst {
            dtype: literal.dtype(),
            shape: literal.shape().into(),
            data: ConstData::new(literal.data()),
        };
        self.b.tensor(tensor)
    }

    /// The elements of a value under another shape, after a check that there are as many.
    fn view(&mut self, value: Value, shape: &[Expr], source: &str) -> Result<Arg> {
        if let Some([from, to]) = reshape_counts(self.func, value, shape) {
            self.check_count(&from, &to, source)?;
        }
        let args = [self.arg(value)?, self.shape(shape)?];
        self.call("vm.builtin.reshape", &args)
    }

    /// The results of a call: one value, or the items of a tuple.
    fn unpack(&mut self, result: Arg, outputs: &[Value]) -> Result<()> {
        if let [only] = outputs {
            self.at.insert(*only, result);
            return Ok(());
        }
        for (n, output) in outputs.iter().enumerate() {
            let args = [result, self.b.int(n as i64)];
            let item = self.call("vm.builtin.tuple_getitem", &args)?;
            self.at.insert(*output, item);
        }
        Ok(())
    }

    fn call_tir(
        &mut self,
        func: FuncId,
        args: &[Value],
        scalars: &[Expr],
        outputs: &[Value],
    ) -> Result<()> {
        let FuncData::Prim(kernel) = &self.module.funcs[func] else {
            return Err(LowerError::internal(format!("{func} is not a kernel")));
        };
        for output in outputs {
            let tensor = self.alloc(*output)?;
            self.at.insert(*output, tensor);
        }
        let mut list = self.args(args)?;
        for scalar in scalars {
            list.push(self.scalar(scalar)?);
        }
        list.extend(self.args(outputs)?);
        Ok(self.b.emit_call(&kernel.name, &list, Reg::VOID)?)
    }

    fn alloc(&mut self, value: Value) -> Result<Arg> {
        let Type::Tensor(ty) = &self.func.values[value].ty else {
            return Err(LowerError::internal(format!("kernel output {value} is not a tensor")));
        };
        let shape = self.shape(&ty.shape)?;
        let (slot, zero) = (self.plan.slot(value), self.b.int(0));
        match (slot, self.arena) {
            (StorageSlot::Arena(offset), Some(arena)) => {
                let offset = self.b.int(offset);
                self.alloc_tensor(arena, offset, shape, ty.dtype)
            }
            // An arena of no bytes was not allocated: the tensor is empty.
            (StorageSlot::Arena(_) | StorageSlot::Own, _) => {
                let storage = self.fresh();
                self.alloc_storage(shape, ty.dtype, storage)?;
                let tensor = self.alloc_tensor(storage, zero, shape, ty.dtype)?;
                self.b.emit_call("vm.builtin.null_value", &[], storage)?;
                Ok(tensor)
            }
            (StorageSlot::Shared(id, last), _) => {
                let storage = match self.storages.get(&id) {
                    Some(storage) => *storage,
                    None => {
                        let storage = self.fresh();
                        self.alloc_storage(shape, ty.dtype, storage)?;
                        self.storages.insert(id, storage);
                        storage
                    }
                };
                let tensor = self.alloc_tensor(storage, zero, shape, ty.dtype)?;
                if last {
                    self.b.emit_call("vm.builtin.null_value", &[], storage)?;
                }
                Ok(tensor)
            }
        }
    }

    fn alloc_storage(&mut self, shape: Arg, dtype: DType, dst: Arg) -> Result<()> {
        let args =
            [self.b.vm_state(), shape, self.b.int(0), self.b.dtype(dtype), self.b.string("global")];
        Ok(self.b.emit_call("vm.builtin.alloc_storage", &args, dst)?)
    }

    fn alloc_tensor(&mut self, storage: Arg, offset: Arg, shape: Arg, dtype: DType) -> Result<Arg> {
        let dtype = self.b.dtype(dtype);
        self.call("vm.builtin.alloc_tensor", &[storage, offset, shape, dtype])
    }

    /// A shape as an argument: a constant, or made from the heap once per body.
    pub(super) fn shape(&mut self, dims: &[Expr]) -> Result<Arg> {
        let constant: Option<Vec<i64>> = dims.iter().map(Expr::as_int).collect();
        if let Some(extents) = constant {
            return Ok(self.b.shape(&extents));
        }
        if let Some(made) = self.shapes.iter().find_map(|scope| scope.get(dims)) {
            return Ok(*made);
        }
        let mut args = vec![self.heap_arg, self.b.int(dims.len() as i64)];
        for dim in dims {
            let (code, value) = self.entry(dim)?;
            args.extend([self.b.int(code), self.b.int(value)]);
        }
        let shape = self.call("vm.builtin.make_shape", &args)?;
        let scope = self.shapes.last_mut().expect("the function's own scope");
        scope.insert(dims.to_vec(), shape);
        Ok(shape)
    }

    /// An integer as an argument: an immediate, or loaded from the heap.
    pub(super) fn scalar(&mut self, value: &Expr) -> Result<Arg> {
        let (code, value) = self.entry(value)?;
        if code == USE_IMM {
            return Ok(self.b.int(value));
        }
        let args = [self.heap_arg, self.b.int(code), self.b.int(value)];
        self.call("vm.builtin.make_prim_value", &args)
    }

    pub(super) fn entry(&self, e: &Expr) -> Result<(i64, i64)> {
        match reflex_graph::dims::simplify(e).as_int() {
            Some(value) => Ok((USE_IMM, value)),
            None => Ok((LOAD_SHAPE, self.slot(e)? as i64)),
        }
    }

    pub(super) fn slot(&self, e: &Expr) -> Result<usize> {
        let missing = || LowerError::internal(format!("{e:?} has no entry in the shape heap"));
        self.heap.slot(e).ok_or_else(missing)
    }

    /// Computes the expressions that newly known dimensions make known.
    pub(super) fn compute_dims(&mut self, new: &BTreeSet<Var>) -> Result<()> {
        let mut name = "shape_func".to_string();
        let mut n = 1;
        while self.names.contains(&name) {
            name = format!("shape_func{n}");
            n += 1;
        }
        if let Some(func) = self.heap.shape_func(&name, new, &self.known) {
            self.b.emit_call(&name, &[self.heap_arg], Reg::VOID)?;
            self.names.insert(name);
            self.shape_funcs.push(func);
        }
        Ok(())
    }
}
