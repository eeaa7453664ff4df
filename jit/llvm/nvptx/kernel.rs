//! One launch as a kernel: parameters, threads, barriers, shared memory.

use inkwell::AddressSpace;
use inkwell::context::Context;
use inkwell::module::{Linkage, Module};
use inkwell::types::BasicMetadataTypeEnum;
use inkwell::values::{
    BasicMetadataValueEnum, BasicValueEnum, FunctionValue, IntValue, PointerValue,
};
use reflex_tir::box_copy::BoxCopy;
use reflex_tir::codegen::{DeviceKernel, OptLevel, TensorMap};
use reflex_tir::index_width::IndexWidths;
use reflex_tir::launch::Launch;
use reflex_tir::pipeline::Pipeline;
use reflex_tir::thread::{BarrierScope, ThreadAxis, ThreadLevel};
use reflex_tir::{Buffer, Expr, For, ForKind, PrimFunc};

use crate::emit::ir::result_of;
use crate::emit::value::LaneValue;
use crate::emit::{Emitter, Unit};
use crate::error::{CodegenError, Result};
use crate::nvptx::copy_waits::copy_waits;
use crate::nvptx::warp_specialised::mark_maps;
use crate::nvptx::wgmma::{PANELS_ALIGN, has_warpgroups};
use reflex_tir::uses::Uses;

/// Address spaces of LLVM's NVPTX back end.
const GLOBAL: u16 = 1;
const SHARED: u16 = 3;
/// `ptx_kernel` among LLVM's calling conventions.
const PTX_KERNEL: u32 = 71;
/// LLVM's annotation of the largest cluster of a kernel.
const CLUSTER: &str = "maxclusterrank";
/// Alignment of buffers in shared memory: the widest access.
const SHARED_ALIGN: u32 = 16;

/// Adds a launch to the module as the kernel `name`.
pub fn build<'c>(
    context: &'c Context,
    module: &Module<'c>,
    func: &PrimFunc,
    launch: &Launch<'_>,
    name: String,
    opt: OptLevel,
) -> Result<DeviceKernel> {
    let outer = Uses::of_launch(func, launch);
    let global = context.ptr_type(AddressSpace::from(GLOBAL));
    let mut params: Vec<BasicMetadataTypeEnum<'c>> = vec![global.into(); outer.buffers.len()];
    params.extend(vec![BasicMetadataTypeEnum::from(context.i64_type()); outer.vars.len()]);
    let pipeline = Pipeline::of(func, launch).map_err(CodegenError::new)?;
    let (first_map, maps) = (params.len(), pipeline.as_ref().map_or(0, |p| p.maps.len()));
    let generic = context.ptr_type(AddressSpace::default());
    params.extend(vec![BasicMetadataTypeEnum::from(generic); maps]);
    let function = module.add_function(&name, context.void_type().fn_type(&params, false), None);
    function.set_call_conventions(PTX_KERNEL);

    let mut e = Emitter::new(context, module, func, function);
    e.unit = Unit::Gpu;
    for (position, buffer) in outer.buffers.iter().enumerate() {
        let pointer = parameter(function, position)?.into_pointer_value();
        e.buffers.insert(*buffer, pointer);
        if func.is_unaliased(*buffer) {
            e.ir.mark_parameter(function, position as u32, "noalias");
        }
    }
    for (number, var) in outer.vars.iter().enumerate() {
        let word = parameter(function, outer.buffers.len() + number)?.into_int_value();
        let value = e.scalar_from_word(word, func.vars[*var].dtype)?;
        e.vars.insert(*var, LaneValue::Uniform(value));
    }
    e.synchronous = opt == OptLevel::O0;
    e.copy_waits = copy_waits(func, launch);
    e.async_proxy = has_warpgroups(launch);
    e.widths = Some(IndexWidths::of(func, launch));
    let mut shared_bytes = match pipeline {
        None => e.shared_memory(&launch.shared)?,
        Some(_) => 0,
    };
    let (mut grid, mut block) = (std::array::from_fn(|_| Expr::i64(1)), [1; 3]);
    let cluster = cluster_of(func, launch)?;
    for l in launch.blocks.iter().chain(&launch.threads) {
        let Dimension { register, level, number } = Dimension::of(l, cluster)?;
        e.bind_axis(l, register)?;
        match level {
            ThreadLevel::Thread => block[number] = threads_of(func, l)?,
            _ => grid[number] = grid[number].clone() * l.extent.clone(),
        }
    }
    if let Some(pipeline) = &pipeline {
        let bytes = pipeline.shared_bytes(func);
        shared_bytes = u32::try_from(bytes)
            .map_err(|_| CodegenError::new(format!("{bytes} bytes of shared memory")))?;
        block[1] += 1;
        let memory = e.dynamic_shared_memory(PANELS_ALIGN);
        let memory = e.opaque(memory)?;
        let map = |n| Ok(parameter(function, first_map + n)?.into_pointer_value());
        let maps = (0..maps).map(map).collect::<Result<_>>()?;
        e.warp_specialised(launch, pipeline, memory, maps)?;
    } else {
        e.stmt(launch.body)?;
    }
    e.ir.builder.build_return(None)?;
    e.finish()?;
    annotate(context, module, function, &block)?;
    if let Some(blocks) = cluster {
        annotate_number(context, module, function, CLUSTER, u64::from(blocks))?;
    }
    if pipeline.is_some() {
        let maps = mark_maps(&e, function, first_map as u32, maps as u32);
        annotate_maps(context, module, function, &maps)?;
    }
    let maps = pipeline.map_or(vec![], |pipeline| pipeline.maps.iter().map(map_of).collect());
    let (buffers, vars) = (Vec::from_iter(outer.buffers), Vec::from_iter(outer.vars));
    Ok(DeviceKernel { name, buffers, vars, maps, grid, block, shared_bytes })
}

/// Blocks of a cluster, where a launch has clusters.
fn cluster_of(func: &PrimFunc, launch: &Launch<'_>) -> Result<Option<u32>> {
    let bound = ForKind::ThreadBinding(ThreadAxis::ClusterX);
    let blocks = launch.blocks.iter().find(|l| l.kind == bound);
    blocks.map(|l| threads_of(func, l)).transpose()
}

/// The number of threads, or of blocks of a cluster, that a loop stands for, which launches know before they begin.
fn threads_of(func: &PrimFunc, l: &For) -> Result<u32> {
    let known = l.extent.as_int().and_then(|n| u32::try_from(n).ok());
    let name = &func.vars[l.var].name;
    known.ok_or_else(|| CodegenError::new(format!("the extent of {name} is not constant")))
}

fn map_of(copy: &BoxCopy) -> TensorMap {
    let dims = copy.dims.iter().map(|d| (d.extent.clone(), d.stride.clone(), d.count as u32));
    TensorMap { buffer: copy.from, dims: dims.collect() }
}

fn parameter<'c>(function: FunctionValue<'c>, position: usize) -> Result<BasicValueEnum<'c>> {
    let missing = || CodegenError::new("the kernel has fewer parameters than its signature");
    function.get_nth_param(position as u32).ok_or_else(missing)
}

/// Marks a function as a kernel of so many threads, for ptxas' choice of registers.
fn annotate<'c>(
    context: &'c Context,
    module: &Module<'c>,
    function: FunctionValue<'c>,
    block: &[u32; 3],
) -> Result<()> {
    let threads = ["maxntidx", "maxntidy", "maxntidz"].into_iter().zip(*block);
    [("kernel", 1)].into_iter().chain(threads).try_for_each(|(key, value)| {
        annotate_number(context, module, function, key, u64::from(value))
    })
}

fn annotate_number<'c>(
    context: &'c Context,
    module: &Module<'c>,
    function: FunctionValue<'c>,
    key: &str,
    value: u64,
) -> Result<()> {
    let name = function.as_global_value().as_pointer_value();
    let value = context.i32_type().const_int(value, false);
    let node = context.metadata_node(&[
        BasicMetadataValueEnum::from(name),
        context.metadata_string(key).into(),
        value.into(),
    ]);
    let failed = |text| CodegenError::new(format!("LLVM refuses an annotation: {text}"));
    module.add_global_metadata("nvvm.annotations", &node).map_err(failed)
}

/// Says the shape of clusters in PTX. LLVM 19 has a word for the largest cluster alone, and no kernel here has another.
pub fn with_clusters(ptx: String) -> String {
    const LARGEST: &str = ".maxclusterrank ";
    if !ptx.contains(LARGEST) {
        return ptx;
    }
    let line = |line: &str| match line.trim_end().strip_prefix(LARGEST) {
        Some(blocks) => format!(".reqnctapercluster {blocks}, 1, 1\n"),
        None => line.to_owned(),
    };
    ptx.split_inclusive('\n').map(line).collect()
}

/// Marks parameters, from 1 on, as ones that are never written, so that their address may be taken; and a kernel as one
/// whose threads have as many registers as one block on a multiprocessor leaves them.
fn annotate_maps<'c>(
    context: &'c Context,
    module: &Module<'c>,
    function: FunctionValue<'c>,
    maps: &[u64],
) -> Result<()> {
    let name = BasicMetadataValueEnum::from(function.as_global_value().as_pointer_value());
    let number = |n: u64| BasicMetadataValueEnum::from(context.i32_type().const_int(n, false));
    let maps: Vec<_> = maps.iter().map(|n| number(*n)).collect();
    let maps = context.metadata_node(&maps).into();
    for (key, value) in [("grid_constant", maps), ("minctasm", number(1))] {
        let node = context.metadata_node(&[name, context.metadata_string(key).into(), value]);
        let failed = |text| CodegenError::new(format!("LLVM refuses an annotation: {text}"));
        module.add_global_metadata("nvvm.annotations", &node).map_err(failed)?;
    }
    Ok(())
}

/// An axis as the hardware has it.
struct Dimension {
    /// The special register with the number of the block or thread.
    register: &'static str,
    level: ThreadLevel,
    /// 0 for x, 1 for y, 2 for z.
    number: usize,
}

impl Dimension {
    /// Blocks are numbered in their cluster, and clusters in the grid, where there are any.
    fn of(l: &For, cluster: Option<u32>) -> Result<Dimension> {
        use ThreadLevel::{Block, Thread};
        let ForKind::ThreadBinding(axis) = l.kind else {
            return Err(CodegenError::new("a loop of a launch is bound to no axis"));
        };
        let (register, level, number) = match axis {
            ThreadAxis::BlockX if cluster.is_some() => ("clusterid.x", Block, 0),
            ThreadAxis::ClusterX => ("cluster.ctaid.x", Block, 0),
            ThreadAxis::BlockX => ("ctaid.x", Block, 0),
            ThreadAxis::BlockY => ("ctaid.y", Block, 1),
            ThreadAxis::BlockZ => ("ctaid.z", Block, 2),
            ThreadAxis::ThreadX => ("tid.x", Thread, 0),
            ThreadAxis::ThreadY => ("tid.y", Thread, 1),
            ThreadAxis::ThreadZ => ("tid.z", Thread, 2),
            ThreadAxis::Virtual => {
                return Err(CodegenError::new(format!("no code for loops bound to {axis}")));
            }
        };
        Ok(Dimension { register, level, number })
    }
}

impl<'c> Emitter<'_, 'c> {
    /// Binds the variable of a loop to the number of the block or thread along its axis.
    fn bind_axis(&mut self, l: &For, register: &str) -> Result<()> {
        let name = format!("llvm.nvvm.read.ptx.sreg.{register}");
        let number = result_of(self.ir.intrinsic(&name, &[], &[])?)?.into_int_value();
        let wide = self.ir.builder.build_int_z_extend(number, self.ir.context.i64_type(), "")?;
        let min = self.uniform_int(&l.min, "loop start")?;
        let value: IntValue<'c> = self.ir.builder.build_int_add(min, wide, "")?;
        self.vars.insert(l.var, LaneValue::Uniform(value.into()));
        Ok(())
    }

    /// Places buffers in the block's dynamic shared memory, one behind the other. Returns its bytes.
    fn shared_memory(&mut self, buffers: &[Buffer]) -> Result<u32> {
        if buffers.is_empty() {
            return Ok(0);
        }
        let align = if self.async_proxy { PANELS_ALIGN } else { SHARED_ALIGN };
        let mut memory = self.dynamic_shared_memory(align);
        if self.async_proxy {
            memory = self.opaque(memory)?;
        }
        let mut size = 0_u32;
        for buffer in buffers {
            let data = &self.func.buffers[*buffer];
            let mut extents = data.shape.iter().map(Expr::as_int);
            let count = extents.try_fold(1_i64, |n, extent| n.checked_mul(extent?));
            let bytes = count.and_then(|n| data.dtype.bytes_for(usize::try_from(n).ok()?));
            let end = bytes.and_then(|bytes| size.checked_add(u32::try_from(bytes).ok()?));
            let end = end.ok_or_else(|| {
                CodegenError::new(format!("shared memory {} has no constant size", data.name))
            })?;
            let offset = self.ir.i64(i64::from(size));
            let address = self.ir.offset_bytes(memory, offset)?;
            if self.async_proxy {
                let first = i64::from(size) / data.dtype.itemsize() as i64;
                self.placed.insert(*buffer, (memory, first));
            }
            self.buffers.insert(*buffer, address);
            size = end.next_multiple_of(align);
        }
        Ok(size)
    }

    /// An address that LLVM does not know to be constant. It keeps sums of a constant and an offset in registers of
    /// their own, one for each access, but adds numbers to a register in the access.
    fn opaque(&self, address: PointerValue<'c>) -> Result<PointerValue<'c>> {
        let context = self.ir.context;
        let ty = address.get_type();
        let function = ty.fn_type(&[ty.into()], false);
        let (text, constraints) = ("mov.u64 $0, $1;".to_owned(), "=l,l".to_owned());
        let code =
            context.create_inline_asm(function, text, constraints, false, false, None, false);
        let call = self.ir.builder.build_indirect_call(function, code, &[address.into()], "")?;
        Ok(result_of(call)?.into_pointer_value())
    }

    fn dynamic_shared_memory(&self, align: u32) -> PointerValue<'c> {
        const NAME: &str = "shared_memory";
        let module = self.ir.module;
        let global = module.get_global(NAME).unwrap_or_else(|| {
            let bytes = self.ir.context.i8_type().array_type(0);
            let global = module.add_global(bytes, Some(AddressSpace::from(SHARED)), NAME);
            global.set_linkage(Linkage::External);
            global
        });
        // Kernels of a module share it.
        global.set_alignment(global.get_alignment().max(align));
        global.as_pointer_value()
    }

    /// Lets the threads of a block or warp wait for each other.
    pub(crate) fn barrier(&self, scope: BarrierScope) -> Result<()> {
        match scope {
            // What passes between threads goes through the ring, whose objects they wait for.
            BarrierScope::Block if self.ring.is_some() => {}
            BarrierScope::Block => {
                if self.async_proxy {
                    self.fence_proxy()?;
                }
                self.ir.intrinsic("llvm.nvvm.barrier0", &[], &[])?;
            }
            BarrierScope::Warp => {
                let all = self.ir.i32(-1).into();
                self.ir.intrinsic("llvm.nvvm.bar.warp.sync", &[], &[all])?;
            }
        }
        Ok(())
    }
}
