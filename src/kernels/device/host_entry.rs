//! The host's part of a GPU function: checks of arguments, memory of intermediates, launches.
//!
//! A kernel's launches are those that the code generator made; what is between them (loops,
//! conditions, allocations) runs here, on integers alone. Errors of arguments are worded as the
//! packed entries of CPU kernels word them.
//!
//! Decision: docs/decisions/0061-host-entries.md

use std::sync::Arc;

use reflex_runtime::abi::{DLDevice, DLTensor};
use reflex_runtime::alloc::device::OwnedBlock;
use reflex_runtime::device::{self, KernelSpec, Launch, LoadedKernels, Stream};
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::tensor::transfer::host_copy_of;
use reflex_runtime::value::{Any, AnyView};
use reflex_tir::codegen::{DeviceCode, DeviceKernel};
use reflex_tir::{Buffer, ForKind, IndexCheck, Param, PrimFunc, Stmt};

use super::host_expr::{HostExpr, Slots};

/// A GPU function that is ready to be called.
#[derive(Debug)]
pub(super) struct HostEntry {
    name: String,
    device: DLDevice,
    params: Vec<HostParam>,
    checks: Vec<HostCheck>,
    body: HostStep,
    /// Variables, and buffers by number.
    slots: usize,
    buffers: usize,
    launches: Vec<HostLaunch>,
    kernels: Box<dyn LoadedKernels>,
}

#[derive(Debug)]
enum HostParam {
    Tensor { name: String, dtype: DType, shape: Vec<Extent>, buffer: usize },
    Scalar { name: String, dtype: DType, slot: usize },
}

/// An extent of a parameter: a variable takes the first extent that it meets.
#[derive(Debug)]
struct Extent {
    value: HostExpr,
    /// The variable that the extent is, if it is one, and comes first here.
    binds: Option<usize>,
}

/// A check of an index tensor, which is one of the parameters.
#[derive(Debug)]
struct HostCheck {
    param: usize,
    bounds: Vec<HostExpr>,
    message: String,
}

#[derive(Debug)]
enum HostStep {
    Seq(Vec<HostStep>),
    Loop { slot: usize, min: HostExpr, extent: HostExpr, body: Box<HostStep> },
    If { cond: HostExpr, then: Box<HostStep>, otherwise: Option<Box<HostStep>> },
    Let { slot: usize, value: HostExpr, body: Box<HostStep> },
    Allocate { buffer: usize, count: HostExpr, dtype: DType, body: Box<HostStep> },
    Launch(usize),
}

#[derive(Debug)]
struct HostLaunch {
    grid: [HostExpr; 3],
    block: [u32; 3],
    shared_bytes: u32,
    buffers: Vec<usize>,
    vars: Vec<usize>,
}

/// The state of a call.
struct Frame<'a> {
    entry: &'a HostEntry,
    slots: Vec<i64>,
    /// Addresses of buffers by number.
    buffers: Vec<u64>,
    stream: Stream,
    /// Parameters of the launch at hand.
    words: Vec<u64>,
}

/// Builds the entry of a lowered function, whose kernels the device loads.
pub(super) fn build(
    func: &PrimFunc,
    code: &DeviceCode,
    device: &'static dyn device::Device,
) -> Result<HostEntry, Error> {
    let spec = |k: &DeviceKernel| KernelSpec { name: k.name.clone(), shared_bytes: k.shared_bytes };
    let specs: Vec<KernelSpec> = code.kernels.iter().map(spec).collect();
    let kernels = device.load(&code.ptx, &specs)?;
    let mut builder = Builder { func, slots: Slots::default(), next: 0 };
    let unsupported = |what: String| Error::value_error(format!("kernel {}: {what}", func.name));
    let params = builder.params().map_err(unsupported)?;
    let checks = func.checks.iter().map(|check| builder.check(check));
    let checks = checks.collect::<Result<_, _>>().map_err(unsupported)?;
    let body = builder.step(&func.body).map_err(unsupported)?;
    if builder.next != code.kernels.len() {
        return Err(unsupported(format!("{} launches, {}", builder.next, code.kernels.len())));
    }
    let launches = code.kernels.iter().map(|kernel| builder.launch(kernel));
    let launches = launches.collect::<Result<_, _>>().map_err(unsupported)?;
    let (slots, buffers) = (builder.slots.count(), func.buffers.len());
    let (name, device) = (func.name.clone(), device.id());
    Ok(HostEntry { name, device, params, checks, body, slots, buffers, launches, kernels })
}

struct Builder<'f> {
    func: &'f PrimFunc,
    slots: Slots,
    /// Number of the next launch.
    next: usize,
}

fn number(buffer: Buffer) -> usize {
    buffer.as_u32() as usize
}

impl Builder<'_> {
    fn params(&mut self) -> Result<Vec<HostParam>, String> {
        let mut bound = vec![];
        let func = self.func;
        let mut of = |param: &Param| match *param {
            Param::Scalar(var) => {
                let data = &func.vars[var];
                if !data.dtype.is_int() {
                    return Err(format!("a parameter of {}", data.dtype));
                }
                let slot = self.slots.of(var);
                bound.push(slot);
                Ok(HostParam::Scalar { name: data.name.clone(), dtype: data.dtype, slot })
            }
            Param::Buffer(buffer) => {
                let data = &func.buffers[buffer];
                let mut extent = |e: &reflex_tir::Expr| {
                    let value = HostExpr::of(e, &mut self.slots)?;
                    let binds = match value {
                        HostExpr::Slot(slot) if !bound.contains(&slot) => Some(slot),
                        _ => None,
                    };
                    bound.extend(binds);
                    Ok(Extent { value, binds })
                };
                let shape = data.shape.iter().map(&mut extent).collect::<Result<_, String>>()?;
                let (name, dtype) = (data.name.clone(), data.dtype);
                Ok(HostParam::Tensor { name, dtype, shape, buffer: number(buffer) })
            }
        };
        func.params.iter().map(&mut of).collect()
    }

    fn check(&mut self, check: &IndexCheck) -> Result<HostCheck, String> {
        let is = |param: &Param| matches!(param, Param::Buffer(buffer) if *buffer == check.buffer);
        let param = self.func.params.iter().position(is);
        let param = param.ok_or("an index tensor that is no parameter")?;
        let bounds = check.bounds.iter().map(|bound| HostExpr::of(bound, &mut self.slots));
        let bounds = bounds.collect::<Result<_, _>>()?;
        Ok(HostCheck { param, bounds, message: check.message() })
    }

    fn step(&mut self, stmt: &Stmt) -> Result<HostStep, String> {
        if reflex_tir::launch::Launch::of(stmt).is_some() {
            self.next += 1;
            return Ok(HostStep::Launch(self.next - 1));
        }
        Ok(match stmt {
            Stmt::Seq(list) => {
                HostStep::Seq(list.iter().map(|s| self.step(s)).collect::<Result<_, _>>()?)
            }
            Stmt::For(l) if l.kind == ForKind::Serial => HostStep::Loop {
                slot: self.slots.of(l.var),
                min: HostExpr::of(&l.min, &mut self.slots)?,
                extent: HostExpr::of(&l.extent, &mut self.slots)?,
                body: Box::new(self.step(&l.body)?),
            },
            Stmt::If { cond, then, otherwise } => HostStep::If {
                cond: HostExpr::of(cond, &mut self.slots)?,
                then: Box::new(self.step(then)?),
                otherwise: match otherwise {
                    Some(otherwise) => Some(Box::new(self.step(otherwise)?)),
                    None => None,
                },
            },
            Stmt::Let { var, value, body } => HostStep::Let {
                slot: self.slots.of(*var),
                value: HostExpr::of(value, &mut self.slots)?,
                body: Box::new(self.step(body)?),
            },
            Stmt::Allocate { buffer, body } => {
                let data = &self.func.buffers[*buffer];
                let mut count = HostExpr::Int(1);
                for extent in &data.shape {
                    let extent = HostExpr::of(extent, &mut self.slots)?;
                    count = HostExpr::Binary(reflex_tir::BinOp::Mul, Box::new([count, extent]));
                }
                let body = Box::new(self.step(body)?);
                HostStep::Allocate { buffer: number(*buffer), count, dtype: data.dtype, body }
            }
            Stmt::For(_)
            | Stmt::Block(_)
            | Stmt::Store { .. }
            | Stmt::While { .. }
            | Stmt::Tile(_)
            | Stmt::Barrier(_) => return Err("a statement that the host cannot run".to_owned()),
        })
    }

    fn launch(&mut self, kernel: &DeviceKernel) -> Result<HostLaunch, String> {
        let [x, y, z] = &kernel.grid;
        let slots = &mut self.slots;
        let grid = [HostExpr::of(x, slots)?, HostExpr::of(y, slots)?, HostExpr::of(z, slots)?];
        let float = kernel.vars.iter().find(|var| self.func.vars[**var].dtype.is_float());
        if let Some(var) = float {
            return Err(format!("the float {} for a kernel", self.func.vars[*var].name));
        }
        Ok(HostLaunch {
            grid,
            block: kernel.block,
            shared_bytes: kernel.shared_bytes,
            buffers: kernel.buffers.iter().map(|buffer| number(*buffer)).collect(),
            vars: kernel.vars.iter().map(|var| self.slots.of(*var)).collect(),
        })
    }
}

impl HostEntry {
    /// The function in the packed convention. It returns once its launches are enqueued.
    pub(super) fn call(self: &Arc<Self>, args: &[AnyView<'_>]) -> Result<Any, Error> {
        if args.len() != self.params.len() {
            let (name, want, got) = (&self.name, self.params.len(), args.len());
            return Err(Error::type_error(format!("{name}: expected {want} arguments, got {got}")));
        }
        let mut frame = Frame {
            entry: self,
            slots: vec![0; self.slots],
            buffers: vec![0; self.buffers],
            stream: device::current_stream(self.device),
            words: vec![],
        };
        for (at, (param, arg)) in self.params.iter().zip(args).enumerate() {
            frame.bind(at, param, arg)?;
        }
        frame.check_shapes(args)?;
        self.checks.iter().try_for_each(|check| frame.check_indices(check, args))?;
        frame.run(&self.body)?;
        Ok(Any::NONE)
    }

    fn prefix(&self, at: usize, name: &str) -> String {
        format!("{}: argument {at} ({name}): ", self.name)
    }
}

/// The dimensions of a tensor.
fn dims(tensor: &DLTensor) -> &[i64] {
    if tensor.ndim <= 0 || tensor.shape.is_null() {
        return &[];
    }
    // SAFETY: the caller's reference is to a live tensor, which has `ndim` dimensions at `shape`.
    unsafe { std::slice::from_raw_parts(tensor.shape, tensor.ndim as usize) }
}

/// Whether a tensor's elements are packed in row-major order.
fn is_compact(tensor: &DLTensor) -> bool {
    let shape = dims(tensor);
    if tensor.strides.is_null() || shape.contains(&0) {
        return true;
    }
    // SAFETY: strides that are there are as many as dimensions.
    let strides = unsafe { std::slice::from_raw_parts(tensor.strides, shape.len()) };
    let mut expected = 1_i64;
    shape.iter().zip(strides).rev().all(|(dim, stride)| {
        let fits = *dim == 1 || *stride == expected;
        expected = expected.wrapping_mul(*dim);
        fits
    })
}

impl Frame<'_> {
    fn bind(&mut self, at: usize, param: &HostParam, arg: &AnyView<'_>) -> Result<(), Error> {
        match param {
            HostParam::Scalar { name, dtype, slot } => {
                let value = arg.as_int().ok_or_else(|| {
                    let (prefix, got) = (self.entry.prefix(at, name), arg.type_key());
                    Error::type_error(format!("{prefix}expected a scalar {dtype}, got {got}"))
                })?;
                self.slots[*slot] = value;
                Ok(())
            }
            HostParam::Tensor { name, dtype, shape, buffer } => {
                let tensor = arg.as_dltensor().ok_or_else(|| {
                    let (prefix, got) = (self.entry.prefix(at, name), arg.type_key());
                    Error::type_error(format!("{prefix}expected a tensor, got {got}"))
                })?;
                let address = self.address(tensor, *dtype, shape).map_err(|what| {
                    Error::value_error(format!("{}{what}", self.entry.prefix(at, name)))
                })?;
                self.buffers[*buffer] = address;
                Ok(())
            }
        }
    }

    /// Checks a tensor but for extents that are expressions, binds variables, and returns the
    /// address of its data.
    fn address(
        &mut self,
        tensor: &DLTensor,
        dtype: DType,
        shape: &[Extent],
    ) -> Result<u64, String> {
        let given = dims(tensor);
        if given.len() != shape.len() {
            return Err(format!("expected {} dimensions, got {}", shape.len(), given.len()));
        }
        if tensor.dtype != dtype {
            return Err(format!("expected dtype {dtype}, got {}", tensor.dtype));
        }
        let want = self.entry.device;
        if tensor.device != want {
            return Err(format!("expected a tensor on {want}, got one on {}", tensor.device));
        }
        for (d, (extent, given)) in shape.iter().zip(given).enumerate() {
            if *given < 0 {
                return Err(format!("dimension {d}: expected an extent, got {given}"));
            }
            if let Some(slot) = extent.binds {
                self.slots[slot] = *given;
            }
        }
        if !is_compact(tensor) {
            return Err("its elements are not in row-major order".to_owned());
        }
        if tensor.data.is_null() && !given.contains(&0) {
            return Err("the data pointer is null".to_owned());
        }
        Ok((tensor.data.addr() as u64).wrapping_add(tensor.byte_offset))
    }

    /// Checks extents, now that variables are bound.
    fn check_shapes(&self, args: &[AnyView<'_>]) -> Result<(), Error> {
        for (at, (param, arg)) in self.entry.params.iter().zip(args).enumerate() {
            let (HostParam::Tensor { name, shape, .. }, Some(tensor)) = (param, arg.as_dltensor())
            else {
                continue;
            };
            for (d, (extent, got)) in shape.iter().zip(dims(tensor)).enumerate() {
                let want = extent.value.value(&self.slots);
                if want != *got {
                    let prefix = self.entry.prefix(at, name);
                    let text = format!("{prefix}dimension {d}: expected {want}, got {got}");
                    return Err(Error::value_error(text));
                }
            }
        }
        Ok(())
    }

    /// Reads an index tensor and checks its elements. This waits for the device.
    fn check_indices(&self, check: &HostCheck, args: &[AnyView<'_>]) -> Result<(), Error> {
        let Some(tensor) = args[check.param].as_dltensor() else { return Ok(()) };
        if dims(tensor).contains(&0) {
            return Ok(());
        }
        let copy = host_copy_of(tensor)?;
        let values: Vec<i64> = match copy.dtype() {
            DType::I32 => copy.to_vec::<i32>()?.into_iter().map(i64::from).collect(),
            _ => copy.to_vec::<i64>()?,
        };
        let bounds: Vec<i64> = check.bounds.iter().map(|b| b.value(&self.slots)).collect();
        let whole = values.len() / bounds.len().max(1) * bounds.len();
        // As on CPUs: the first of the first bound that has one outside.
        for (first, bound) in bounds.iter().enumerate() {
            let mut of_bound = values[..whole].iter().skip(first).step_by(bounds.len());
            if let Some(bad) = of_bound.find(|value| !(-bound..*bound).contains(value)) {
                let text = format!("{}{bad} is out of range for an axis of {bound}", check.message);
                return Err(Error::new("IndexError", text));
            }
        }
        Ok(())
    }

    fn run(&mut self, step: &HostStep) -> Result<(), Error> {
        match step {
            HostStep::Seq(steps) => steps.iter().try_for_each(|step| self.run(step)),
            HostStep::Loop { slot, min, extent, body } => {
                let (min, extent) = (min.value(&self.slots), extent.value(&self.slots));
                for n in 0..extent {
                    self.slots[*slot] = min.wrapping_add(n);
                    self.run(body)?;
                }
                Ok(())
            }
            HostStep::If { cond, then, otherwise } => {
                match (cond.value(&self.slots) != 0, otherwise) {
                    (true, _) => self.run(then),
                    (false, Some(otherwise)) => self.run(otherwise),
                    (false, None) => Ok(()),
                }
            }
            HostStep::Let { slot, value, body } => {
                self.slots[*slot] = value.value(&self.slots);
                self.run(body)
            }
            HostStep::Allocate { buffer, count, dtype, body } => {
                let count = usize::try_from(count.value(&self.slots)).ok();
                let bytes = count.and_then(|count| dtype.bytes_for(count));
                let bytes = bytes.ok_or_else(|| {
                    let name = &self.entry.name;
                    Error::value_error(format!("{name}: an intermediate has an impossible size"))
                })?;
                // Released when the launches are enqueued: what takes its memory comes after them.
                let block = OwnedBlock::new(device::get(self.entry.device)?.allocator(), bytes)?;
                self.buffers[*buffer] = block.data().addr().get() as u64;
                self.run(body)
            }
            HostStep::Launch(at) => self.launch(*at),
        }
    }

    fn launch(&mut self, at: usize) -> Result<(), Error> {
        let HostLaunch { grid, block, shared_bytes, buffers, vars } = &self.entry.launches[at];
        let mut blocks = [0; 3];
        for (extent, blocks) in grid.iter().zip(&mut blocks) {
            let value = extent.value(&self.slots).max(0);
            *blocks = u32::try_from(value).map_err(|_| {
                let name = &self.entry.name;
                Error::value_error(format!("{name}: {value} blocks of threads along one axis"))
            })?;
        }
        self.words.clear();
        self.words.extend(buffers.iter().map(|buffer| self.buffers[*buffer]));
        self.words.extend(vars.iter().map(|slot| self.slots[*slot] as u64));
        let (block, shared_bytes) = (*block, *shared_bytes);
        let launch = Launch { kernel: at, grid: blocks, block, shared_bytes, params: &self.words };
        // SAFETY: the words are those that the code generator lists for the kernel, of tensors
        // with the extents that it was generated for. Tensors are released, if at all, in the
        // order of this stream.
        unsafe { self.entry.kernels.launch(self.stream, &launch) }
    }
}
