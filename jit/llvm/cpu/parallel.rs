//! Parallel loops: one function per loop that runs a range of iterations, launched as tasks.
//!
//! The range is divided statically, so what each task does depends only on the number of
//! tasks, and results do not depend on it at all. A loop of at most one iteration is called
//! directly. Parallel loops inside a task run in order.

use inkwell::IntPredicate;
use inkwell::module::Linkage;
use inkwell::types::{BasicMetadataTypeEnum, BasicTypeEnum, StructType};
use inkwell::values::{
    BasicMetadataValueEnum, BasicValueEnum, FunctionValue, IntValue, PointerValue,
};
use reflex_tir::{Buffer, For, Var};

use crate::emit::Emitter;
use crate::emit::ir::result_of;
use crate::emit::stmt::TripCount;
use crate::emit::value::LaneValue;
use crate::error::{CodegenError, Result};
use reflex_tir::uses::Uses;

const LAUNCH: &str = "__TVMBackendParallelLaunch";

/// Values from outside the loop that its body uses.
struct Captures<'c> {
    vars: Vec<(Var, BasicValueEnum<'c>)>,
    buffers: Vec<(Buffer, PointerValue<'c>)>,
}

impl<'c> Captures<'c> {
    fn values(&self) -> Vec<BasicValueEnum<'c>> {
        let vars = self.vars.iter().map(|(_, v)| *v);
        vars.chain(self.buffers.iter().map(|(_, p)| (*p).into())).collect()
    }
}

impl<'a, 'c> Emitter<'a, 'c> {
    /// Emits a parallel loop; a part that fails makes the function leave with its status.
    pub(crate) fn parallel(&mut self, l: &For) -> Result<()> {
        if !self.registers.is_empty() {
            return Err(CodegenError::new("threads inside of an allocation of matrix registers"));
        }
        let min = self.uniform_int(&l.min, "loop start")?;
        let extent = self.uniform_int(&l.extent, "loop extent")?;
        let captures = self.captures(l)?;
        let part = self.part_function(l, &captures)?;
        let values = captures.values();

        let launch = self.ir.block(self.function, "launch");
        let direct = self.ir.block(self.function, "direct");
        let join = self.ir.block(self.function, "joined");
        let one = self.ir.i64(1);
        let few = self.ir.builder.build_int_compare(IntPredicate::SLE, extent, one, "")?;
        self.ir.builder.build_conditional_branch(few, direct, launch)?;

        self.ir.builder.position_at_end(direct);
        let end = self.ir.builder.build_int_add(min, extent, "")?;
        let direct_status = self.call_part(part, min, end, &values)?;
        self.ir.builder.build_unconditional_branch(join)?;

        self.ir.builder.position_at_end(launch);
        let launch_status = self.launch(part, min, extent, &values)?;
        self.ir.builder.build_unconditional_branch(join)?;

        self.ir.builder.position_at_end(join);
        let phi = self.ir.builder.build_phi(self.ir.context.i32_type(), "")?;
        phi.add_incoming(&[(&direct_status, direct), (&launch_status, launch)]);
        self.check_status(phi.as_basic_value().into_int_value())
    }

    fn captures(&self, l: &For) -> Result<Captures<'c>> {
        let Uses { vars, buffers } = Uses::of(self.func, &l.body);
        let vars = vars.into_iter().filter(|v| *v != l.var).filter_map(|v| {
            let value = *self.vars.get(&v)?;
            Some(value.uniform("a value used by a parallel loop").map(|value| (v, value)))
        });
        let buffers = buffers.into_iter().filter_map(|b| Some((b, *self.buffers.get(&b)?)));
        Ok(Captures { vars: vars.collect::<Result<_>>()?, buffers: buffers.collect() })
    }

    /// `i32 part(i64 begin, i64 end, captures...)`: the iterations `begin..end`.
    fn part_function(&self, l: &For, captures: &Captures<'c>) -> Result<FunctionValue<'c>> {
        let context = self.ir.context;
        let mut params: Vec<BasicMetadataTypeEnum<'c>> = vec![context.i64_type().into(); 2];
        params.extend(captures.values().iter().map(|v| BasicMetadataTypeEnum::from(v.get_type())));
        let name = format!("{}.{}", self.func.name, self.func.vars[l.var].name);
        let signature = context.i32_type().fn_type(&params, false);
        let function = self.ir.module.add_function(&name, signature, Some(Linkage::Internal));

        let mut e = Emitter::new(context, self.ir.module, self.func, function);
        e.instructions = self.instructions;
        e.in_parallel = true;
        let params: Vec<BasicValueEnum<'c>> = function.get_param_iter().collect();
        let (vars, buffers) = params[2..].split_at(captures.vars.len());
        for ((var, _), value) in captures.vars.iter().zip(vars) {
            e.vars.insert(*var, LaneValue::Uniform(*value));
        }
        for (i, ((buffer, _), value)) in captures.buffers.iter().zip(buffers).enumerate() {
            e.buffers.insert(*buffer, value.into_pointer_value());
            if self.func.is_unaliased(*buffer) {
                e.ir.mark_parameter(function, (2 + vars.len() + i) as u32, "noalias");
            }
        }
        let (begin, end) = (params[0].into_int_value(), params[1].into_int_value());
        e.counted(l.var, begin, end, TripCount::Unknown, |e| e.stmt(&l.body))?;
        e.ir.builder.build_return(Some(&e.ir.i32(0)))?;
        e.finish()?;
        Ok(function)
    }

    fn call_part(
        &self,
        part: FunctionValue<'c>,
        begin: IntValue<'c>,
        end: IntValue<'c>,
        captures: &[BasicValueEnum<'c>],
    ) -> Result<IntValue<'c>> {
        let mut args: Vec<BasicMetadataValueEnum<'c>> = vec![begin.into(), end.into()];
        args.extend(captures.iter().map(|v| BasicMetadataValueEnum::from(*v)));
        Ok(result_of(self.ir.builder.build_call(part, &args, "")?)?.into_int_value())
    }

    /// Writes min, extent and captures to the stack and hands them to the host's pool.
    fn launch(
        &self,
        part: FunctionValue<'c>,
        min: IntValue<'c>,
        extent: IntValue<'c>,
        captures: &[BasicValueEnum<'c>],
    ) -> Result<IntValue<'c>> {
        let mut fields: Vec<BasicValueEnum<'c>> = vec![min.into(), extent.into()];
        fields.extend(captures);
        let types: Vec<BasicTypeEnum<'c>> = fields.iter().map(|v| v.get_type()).collect();
        let layout = self.ir.context.struct_type(&types, false);
        let data = self.alloca(layout, 8)?;
        for (i, value) in fields.iter().enumerate() {
            let field = self.ir.builder.build_struct_gep(layout, data, i as u32, "")?;
            self.ir.builder.build_store(field, *value)?;
        }
        let task = self.task_function(part, layout)?;
        let (i32t, pointer) = (self.ir.context.i32_type(), self.ir.ptr());
        let signature = i32t.fn_type(&[pointer.into(), pointer.into(), i32t.into()], false);
        let all_threads = self.ir.i32(0);
        let args =
            [task.as_global_value().as_pointer_value().into(), data.into(), all_threads.into()];
        let function = self.slot(LAUNCH)?;
        let call = self.ir.builder.build_indirect_call(signature, function, &args, "")?;
        Ok(result_of(call)?.into_int_value())
    }

    /// `i32 task(i32 id, env*, data*)`: the id-th of `env.num_task` equal ranges.
    fn task_function(
        &self,
        part: FunctionValue<'c>,
        layout: StructType<'c>,
    ) -> Result<FunctionValue<'c>> {
        let (i32t, pointer) = (self.ir.context.i32_type(), self.ir.ptr());
        let signature = i32t.fn_type(&[i32t.into(), pointer.into(), pointer.into()], false);
        let name = format!("{}.task", part.get_name().to_string_lossy());
        let function = self.ir.module.add_function(&name, signature, Some(Linkage::Internal));
        let e = Emitter::new(self.ir.context, self.ir.module, self.func, function);
        let params: Vec<BasicValueEnum<'c>> = function.get_param_iter().collect();
        let [id, env, data] = params[..] else {
            return Err(CodegenError::new("a task has three parameters"));
        };
        let data = data.into_pointer_value();
        let mut fields = vec![];
        for (i, ty) in layout.get_field_types_iter().enumerate() {
            let field = e.ir.builder.build_struct_gep(layout, data, i as u32, "")?;
            fields.push(e.ir.builder.build_load(ty, field, "")?);
        }
        let (min, extent) = (fields[0].into_int_value(), fields[1].into_int_value());
        // `num_task` of the `TVMParallelGroupEnv` is behind a pointer.
        let offset = e.ir.i64(self.instructions.pointer_bytes as i64);
        let at = e.ir.offset_bytes(env.into_pointer_value(), offset)?;
        let count = e.ir.builder.build_load(i32t, at, "")?.into_int_value();
        let (begin, end) = e.range(id.into_int_value(), count, min, extent)?;
        let status = e.call_part(part, begin, end, &fields[2..])?;
        e.ir.builder.build_return(Some(&status))?;
        e.finish()?;
        Ok(function)
    }

    /// Iterations of task `id` of `count`: `ceil(extent / count)` each, the last ones fewer.
    fn range(
        &self,
        id: IntValue<'c>,
        count: IntValue<'c>,
        min: IntValue<'c>,
        extent: IntValue<'c>,
    ) -> Result<(IntValue<'c>, IntValue<'c>)> {
        let (b, i64t) = (&self.ir.builder, self.ir.context.i64_type());
        let id = b.build_int_z_extend(id, i64t, "")?;
        let count = b.build_int_z_extend(count, i64t, "")?;
        let most = b.build_int_sub(b.build_int_add(extent, count, "")?, self.ir.i64(1), "")?;
        let step = b.build_int_unsigned_div(most, count, "")?;
        let clamp = |v: IntValue<'c>| -> Result<IntValue<'c>> {
            let least = self.ir.pure_intrinsic("llvm.smin", &[v.into(), extent.into()])?;
            Ok(b.build_int_add(min, least.into_int_value(), "")?)
        };
        let begin = b.build_int_mul(id, step, "")?;
        Ok((clamp(begin)?, clamp(b.build_int_add(begin, step, "")?)?))
    }
}
