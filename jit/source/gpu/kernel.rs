//! One launch as a kernel: parameters, threads, barriers, shared memory.

use reflex_tir::codegen::DeviceKernel;
use reflex_tir::launch::{Launch, Varying};
use reflex_tir::thread::{BarrierScope, ThreadAxis, ThreadLevel};
use reflex_tir::uses::Uses;
use reflex_tir::{Buffer, DType, Expr, For, ForKind, PrimFunc, Stmt, Var};

use crate::cpu::written;
use crate::dialect::Dialect;
use crate::error::{Result, SourceError};
use crate::helpers::Helpers;
use crate::print::Printer;

/// Alignment of buffers in shared memory: the widest access.
const SHARED_ALIGN: u32 = 16;

/// Prints a launch as the kernel `name`.
pub fn print(
    func: &PrimFunc,
    launch: &Launch<'_>,
    name: String,
    dialect: Dialect,
    helpers: &mut Helpers,
) -> Result<(String, DeviceKernel)> {
    if dialect == Dialect::OpenCl {
        check_warps(func, launch)?;
    }
    let outer = Uses::of_launch(func, launch);
    let mut p = Printer::new(dialect, func, helpers);
    p.names.declare(&name);
    let (params, words) = parameters(&mut p, &outer, launch)?;
    let (mut grid, mut block) = (std::array::from_fn(|_| Expr::i64(1)), [1; 3]);
    for l in launch.blocks.iter().chain(&launch.threads) {
        let Dimension { level, number, .. } = Dimension::of(l)?;
        match level {
            ThreadLevel::Thread => block[number] = threads_of(func, l)?,
            _ => grid[number] = l.extent.clone(),
        }
    }
    let [x, y, z] = block;
    let threads = u64::from(x) * u64::from(y) * u64::from(z);
    let params = params.join(", ");
    p.out.open(match dialect {
        Dialect::OpenCl => format!(
            "__kernel __attribute__((reqd_work_group_size({x}, {y}, {z}))) void {name}({params})"
        ),
        _ => format!("extern \"C\" __global__ void __launch_bounds__({threads}) {name}({params})"),
    });
    let shared_bytes = shared_memory(&mut p, &launch.shared)?;
    for (var, word) in words {
        let value = p.value_of_word(&word, func.vars[var].dtype)?;
        let ty = p.value_word(func.vars[var].dtype)?;
        let name = p.declare(var);
        p.out.line(format!("const {ty} {name} = {};", value.as_str()));
    }
    for l in launch.blocks.iter().chain(&launch.threads) {
        bind_axis(&mut p, l)?;
    }
    p.block(launch.body)?;
    p.out.close();
    let (buffers, vars) = (Vec::from_iter(outer.buffers), Vec::from_iter(outer.vars));
    let kernel = DeviceKernel { name, buffers, vars, maps: vec![], grid, block, shared_bytes };
    Ok((p.out.take(), kernel))
}

/// A variable that travels in a word of another type, and the word's name.
type PassedWord = (Var, String);

/// The parameters, and variables that travel in words of another type.
fn parameters(
    p: &mut Printer<'_, '_>,
    outer: &Uses,
    launch: &Launch<'_>,
) -> Result<(Vec<String>, Vec<PassedWord>)> {
    let (func, dialect) = (p.func, p.dialect);
    let written = written(launch.body);
    let (space, restrict) = match dialect {
        Dialect::OpenCl => ("__global ", "restrict "),
        _ => ("", "__restrict__ "),
    };
    let (mut params, mut words) = (vec![], vec![]);
    for buffer in &outer.buffers {
        let data = &func.buffers[*buffer];
        let word = p.stored_word(data.dtype)?;
        let constant = if written.contains(buffer) { "" } else { "const " };
        let restrict = if func.is_unaliased(*buffer) { restrict } else { "" };
        let name = p.names.declare(&data.name);
        params.push(format!("{space}{constant}{word} *{restrict}{name}"));
        p.buffers.insert(*buffer, name);
    }
    let symbols: Vec<Var> =
        func.buffers.values().flat_map(|b| &b.shape).filter_map(Expr::as_var).collect();
    let long = dialect.word(DType::I64)?;
    for var in &outer.vars {
        if func.vars[*var].dtype == DType::I64 {
            let name = p.declare(*var);
            params.push(format!("{long} {name}"));
            if symbols.contains(var) {
                p.positions.insert(*var);
            }
        } else {
            let word = p.names.declare(&format!("{}_word", func.vars[*var].name));
            params.push(format!("{long} {word}"));
            words.push((*var, word));
        }
    }
    Ok((params, words))
}

/// The number of threads that a loop stands for, which launches know before they begin.
fn threads_of(func: &PrimFunc, l: &For) -> Result<u32> {
    let known = l.extent.as_int().and_then(|n| u32::try_from(n).ok());
    let name = &func.vars[l.var].name;
    known.ok_or_else(|| SourceError::new(format!("the extent of {name} is not constant")))
}

/// OpenCL has no warps. Where a warp waits, the block may, if all of it comes.
fn check_warps(func: &PrimFunc, launch: &Launch<'_>) -> Result<()> {
    fn walk(func: &PrimFunc, s: &Stmt, varying: &Varying, parted: bool) -> bool {
        let mut varying = varying.clone();
        let parted = parted || varying.parts(func, s);
        varying.enter(func, s);
        match s {
            Stmt::Barrier(BarrierScope::Warp) => !parted,
            _ => s.children().into_iter().all(|child| walk(func, child, &varying, parted)),
        }
    }
    match walk(func, launch.body, &Varying::of(launch), false) {
        true => Ok(()),
        false => Err(SourceError::new(
            "OpenCL has no warps, and not all threads of the block come to this barrier of one",
        )),
    }
}

/// An axis as the languages have it.
struct Dimension {
    level: ThreadLevel,
    /// 0 for x, 1 for y, 2 for z.
    number: usize,
    /// CUDA's name of it.
    name: &'static str,
}

impl Dimension {
    fn of(l: &For) -> Result<Dimension> {
        use ThreadLevel::{Block, Thread};
        let ForKind::ThreadBinding(axis) = l.kind else {
            return Err(SourceError::new("a loop of a launch is bound to no axis"));
        };
        let (level, number) = match axis {
            ThreadAxis::BlockX => (Block, 0),
            ThreadAxis::BlockY => (Block, 1),
            ThreadAxis::BlockZ => (Block, 2),
            ThreadAxis::ThreadX => (Thread, 0),
            ThreadAxis::ThreadY => (Thread, 1),
            ThreadAxis::ThreadZ => (Thread, 2),
            ThreadAxis::ClusterX | ThreadAxis::Virtual => {
                return Err(SourceError::new(format!("no text for loops bound to {axis}")));
            }
        };
        Ok(Dimension { level, number, name: axis.name() })
    }
}

/// Binds the variable of a loop to the number of the block or thread along its axis.
fn bind_axis(p: &mut Printer<'_, '_>, l: &For) -> Result<()> {
    let Dimension { level, number, name } = Dimension::of(l)?;
    let word = p.dialect.word(DType::I64)?;
    let index = match (p.dialect, level) {
        (Dialect::OpenCl, ThreadLevel::Thread) => format!("(long)get_local_id({number})"),
        (Dialect::OpenCl, _) => format!("(long)get_group_id({number})"),
        _ => format!("({word}){name}"),
    };
    let value = match l.min.as_int() {
        Some(0) => index,
        _ => format!("{} + {index}", p.index(&l.min)?.as_str()),
    };
    let name = p.declare(l.var);
    p.positions.insert(l.var);
    p.out.line(format!("const {word} {name} = {value};"));
    Ok(())
}

/// Declares the buffers of a block: in CUDA in its dynamic shared memory, one behind the other. Returns their bytes.
fn shared_memory(p: &mut Printer<'_, '_>, buffers: &[Buffer]) -> Result<u32> {
    if p.dialect == Dialect::Cuda && !buffers.is_empty() {
        p.out.line("extern __shared__ __align__(16) unsigned char shared_memory[];");
    }
    let mut size = 0_u32;
    for buffer in buffers {
        let data = &p.func.buffers[*buffer];
        let mut extents = data.shape.iter().map(Expr::as_int);
        let count = extents.try_fold(1_i64, |n, extent| n.checked_mul(extent?));
        let bytes = count.and_then(|n| data.dtype.bytes_for(usize::try_from(n).ok()?));
        let end = bytes.and_then(|bytes| size.checked_add(u32::try_from(bytes).ok()?));
        let (end, count) = end.zip(count).ok_or_else(|| {
            SourceError::new(format!("shared memory {} has no constant size", data.name))
        })?;
        let word = p.stored_word(data.dtype)?;
        let name = p.names.declare(&data.name);
        p.out.line(match p.dialect {
            Dialect::OpenCl => {
                format!("__local {word} {name}[{}] __attribute__((aligned(16)));", count.max(1))
            }
            _ => format!("{word} *const {name} = ({word} *)(shared_memory + {size});"),
        });
        p.buffers.insert(*buffer, name);
        size = end.next_multiple_of(SHARED_ALIGN);
    }
    Ok(size)
}

impl Printer<'_, '_> {
    /// Lets the threads of a block or warp wait for each other.
    pub(crate) fn barrier(&mut self, scope: BarrierScope) -> Result<()> {
        self.out.line(match (self.dialect, scope) {
            (Dialect::OpenCl, _) => "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
            (_, BarrierScope::Block) => "__syncthreads();",
            (_, BarrierScope::Warp) => "__syncwarp();",
        });
        Ok(())
    }
}
