//! Parallel loops: one function per loop that runs a range of iterations, launched as tasks.
//!
//! The range is divided statically, so what each task does depends only on the number of
//! tasks, and results do not depend on it at all. A loop of at most one iteration is called
//! directly. Parallel loops inside a task run in order.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, Signature, Type, Value, types};
use cranelift_module::{FuncId, Linkage, Module};
use reflex_runtime::abi::TVMParallelGroupEnv;
use reflex_tir::{Buffer, For, Var};

use crate::emit::stmt::TripCount;
use crate::emit::value::LaneValue;
use crate::emit::{Emitter, define};
use crate::error::Result;
use crate::unit::{POINTER, Unit};
use reflex_tir::uses::Uses;

const LAUNCH: &str = "__TVMBackendParallelLaunch";
const ENV_NUM_TASK: usize = std::mem::offset_of!(TVMParallelGroupEnv, num_task);
/// Bytes of a field of what tasks share.
const FIELD: i32 = 8;
/// The fields before the captures: the first iteration, the number of iterations, and the function of a range.
const HEADER: i32 = 3;

/// Values from outside the loop that its body uses.
struct Captures {
    vars: Vec<(Var, Value, Type)>,
    buffers: Vec<(Buffer, Value)>,
}

impl Emitter<'_, '_, '_> {
    /// Emits a parallel loop; a part that fails makes the function leave with its status.
    pub(crate) fn parallel(&mut self, l: &For) -> Result<()> {
        let min = self.uniform_int(&l.min, "a loop's start")?;
        let extent = self.uniform_int(&l.extent, "a loop's extent")?;
        let captures = self.captures(l)?;
        let number = self.unit.next_part();
        let name = format!("{}.{}.{number}", self.func.name, self.func.vars[l.var].name);
        let part = self.part_function(&name, l, &captures)?;
        let task = self.task_function()?;
        let range = self.address_of(part);
        let data = self.shared_data([min, extent, range], &captures);

        let launch = self.b.create_block();
        let direct = self.b.create_block();
        let join = self.b.create_block();
        let status = self.b.append_block_param(join, types::I32);
        let one = self.i64(1);
        let few = self.b.ins().icmp(IntCC::SignedLessThanOrEqual, extent, one);
        self.b.ins().brif(few, direct, &[], launch, &[]);

        self.b.switch_to_block(direct);
        let end = self.b.ins().iadd(min, extent);
        let result = self.call(part, &[min, end, data])[0];
        self.b.ins().jump(join, &[BlockArg::Value(result)]);

        self.b.switch_to_block(launch);
        let entry = self.address_of(task);
        let all_threads = self.i32(0);
        let params = [POINTER, POINTER, types::I32];
        let result = self.call_slot(LAUNCH, &params, types::I32, &[entry, data, all_threads])?;
        self.b.ins().jump(join, &[BlockArg::Value(result)]);

        self.b.switch_to_block(join);
        self.check_status(status)
    }

    fn captures(&self, l: &For) -> Result<Captures> {
        let Uses { vars, buffers } = Uses::of(self.func, &l.body);
        let vars = vars.into_iter().filter(|v| *v != l.var).filter_map(|v| {
            let value = *self.vars.get(&v)?;
            let value = value.uniform("a value used by a parallel loop");
            Some(value.map(|value| (v, value, self.b.func.dfg.value_type(value))))
        });
        let buffers = buffers.into_iter().filter_map(|b| Some((b, *self.buffers.get(&b)?)));
        Ok(Captures { vars: vars.collect::<Result<_>>()?, buffers: buffers.collect() })
    }

    fn address_of(&mut self, function: FuncId) -> Value {
        let function = self.unit.module.declare_func_in_func(function, self.b.func);
        self.b.ins().func_addr(POINTER, function)
    }

    /// The header and the captures in memory, where tasks find them.
    fn shared_data(&mut self, header: [Value; HEADER as usize], captures: &Captures) -> Value {
        let vars = captures.vars.iter().map(|(_, value, _)| *value);
        let buffers = captures.buffers.iter().map(|(_, pointer)| *pointer);
        let fields: Vec<Value> = header.into_iter().chain(vars).chain(buffers).collect();
        let data = self.stack_memory(fields.len() as u32 * FIELD as u32);
        for (field, at) in fields.into_iter().zip(0..) {
            self.store_at(field, data, at * FIELD);
        }
        data
    }

    /// `i32 part(i64 begin, i64 end, data*)`: the iterations `begin..end`.
    fn part_function(&mut self, name: &str, l: &For, captures: &Captures) -> Result<FuncId> {
        define(self.unit, name, Linkage::Local, part_signature(), |e, params| {
            e.in_parallel = true;
            let (begin, end, data) = (params[0], params[1], params[2]);
            let mut at = HEADER * FIELD;
            for (var, _, ty) in &captures.vars {
                let value = e.load_at(*ty, data, at);
                e.vars.insert(*var, LaneValue::Uniform(value));
                at += FIELD;
            }
            for (buffer, _) in &captures.buffers {
                let pointer = e.load_at(POINTER, data, at);
                e.buffers.insert(*buffer, pointer);
                at += FIELD;
            }
            e.counted(l.var, begin, end, TripCount::Unknown, |e| e.stmt(&l.body))?;
            let zero = e.i32(0);
            e.b.ins().return_(&[zero]);
            Ok(())
        })
    }

    /// `i32 task(i32 id, env*, data*)`: the id-th of `env.num_task` equal ranges, in all kernels.
    fn task_function(&mut self) -> Result<FuncId> {
        let signature = Unit::signature(&[types::I32, POINTER, POINTER], &[types::I32]);
        self.unit.shared("reflex.task", signature, |e, params| {
            let (id, env, data) = (params[0], params[1], params[2]);
            let [min, extent] = [0, FIELD].map(|at| e.load_at(types::I64, data, at));
            let part = e.load_at(POINTER, data, 2 * FIELD);
            let count = e.load_at(types::I32, env, ENV_NUM_TASK as i32);
            let (begin, end) = e.range(id, count, min, extent);
            let signature = e.b.import_signature(part_signature());
            let call = e.b.ins().call_indirect(signature, part, &[begin, end, data]);
            let status = e.b.inst_results(call)[0];
            e.b.ins().return_(&[status]);
            Ok(())
        })
    }

    /// Iterations of task `id` of `count`: `ceil(extent / count)` each, the last ones fewer.
    fn range(&mut self, id: Value, count: Value, min: Value, extent: Value) -> (Value, Value) {
        let id = self.b.ins().uextend(types::I64, id);
        let count = self.b.ins().uextend(types::I64, count);
        let sum = self.b.ins().iadd(extent, count);
        let one = self.i64(1);
        let most = self.b.ins().isub(sum, one);
        let step = self.b.ins().udiv(most, count);
        let begin = self.b.ins().imul(id, step);
        let end = self.b.ins().iadd(begin, step);
        let [begin, end] = [begin, end].map(|at| {
            let least = self.b.ins().smin(at, extent);
            self.b.ins().iadd(min, least)
        });
        (begin, end)
    }
}

/// Of a function that runs a range: its begin, its end, and the data that tasks share.
fn part_signature() -> Signature {
    Unit::signature(&[types::I64, types::I64, POINTER], &[types::I32])
}
