//! Calls of a GPU function: checks of arguments, memory of intermediates, launches.
//!
//! A kernel's launches are those that the code generator made; what is between them (loops,
//! conditions, allocations) runs here, on integers alone. Errors of arguments are worded as the
//! packed entries of CPU kernels word them.
//!
//! Decision: docs/decisions/0061-host-entries.md

use std::sync::Arc;

use reflex_runtime::abi::{DLDevice, DLTensor};
use reflex_runtime::alloc::device::OwnedBlock;
use reflex_runtime::device::waits::Wait;
use reflex_runtime::device::{self, Launch, LoadedKernels, Stream, TensorMap};
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::tensor::transfer::host_copy_of;
use reflex_runtime::value::{Any, AnyView};
use smallvec::{SmallVec, smallvec};

use super::host_expr::HostExpr;
use super::host_plan::{
    Extent, HostCheck, HostLaunch, HostMap, HostParam, HostPlan, HostStep, StepIndex,
};

/// Slots, buffers and parameters that a call has without an allocation.
const FEW: usize = 16;

/// A GPU function that is ready to be called.
#[derive(Debug)]
pub(super) struct HostEntry {
    plan: HostPlan,
    device: DLDevice,
    kernels: Arc<dyn LoadedKernels>,
    /// Shapes of parameters that are known before a call, and whether all are.
    known: Vec<Option<KnownShape>>,
    all_known: bool,
    /// The grids of launches, where they are known before a call.
    grids: Vec<Option<[u32; 3]>>,
}

/// Extents of a tensor that are constants, and the strides of its elements in row-major order.
#[derive(Debug)]
struct KnownShape {
    shape: Box<[i64]>,
    strides: Box<[i64]>,
}

impl KnownShape {
    fn of(param: &HostParam) -> Option<KnownShape> {
        let HostParam::Tensor { shape, .. } = param else { return None };
        let shape = shape.iter().map(|extent| extent.value.as_int().filter(|n| *n > 0));
        let shape: Box<[i64]> = shape.collect::<Option<_>>()?;
        let mut strides = vec![1; shape.len()];
        for d in (1..shape.len()).rev() {
            strides[d - 1] = shape[d].checked_mul(strides[d])?;
        }
        Some(KnownShape { shape, strides: strides.into() })
    }

    /// Whether a tensor with elements is one of this shape, in row-major order. A quick look: where it says no, the checks
    /// that name what is wrong follow, which let other strides of single elements pass.
    fn fits(&self, tensor: &DLTensor) -> bool {
        if dims(tensor) != &*self.shape || tensor.data.is_null() {
            return false;
        }
        if tensor.strides.is_null() {
            return true;
        }
        // SAFETY: strides that are there are as many as dimensions.
        let strides = unsafe { std::slice::from_raw_parts(tensor.strides, self.shape.len()) };
        strides == &*self.strides
    }
}

/// The state of a call.
struct Frame<'a> {
    entry: &'a HostEntry,
    slots: SmallVec<[i64; FEW]>,
    /// Addresses of buffers by number.
    buffers: SmallVec<[u64; FEW]>,
    stream: Stream,
    /// Parameters of the launch at hand.
    words: SmallVec<[u64; FEW]>,
    maps: SmallVec<[TensorMap; 2]>,
}

impl HostEntry {
    /// The entry of a function whose kernels a device has loaded. The plan is verified.
    pub(super) fn new(
        plan: HostPlan,
        device: &dyn device::Device,
        kernels: Arc<dyn LoadedKernels>,
    ) -> HostEntry {
        let known: Vec<Option<KnownShape>> = plan.params.iter().map(KnownShape::of).collect();
        let all_known = known.iter().all(Option::is_some);
        let grid = |launch: &HostLaunch| {
            let [x, y, z] = launch.grid.each_ref().map(|n| u32::try_from(n.as_int()?).ok());
            Some([x?, y?, z?])
        };
        let grids = plan.launches.iter().map(grid).collect();
        HostEntry { plan, device: device.id(), kernels, known, all_known, grids }
    }

    /// The function in the packed convention. It returns once its launches are enqueued.
    pub(super) fn call(self: &Arc<Self>, args: &[AnyView<'_>]) -> Result<Any, Error> {
        if args.len() != self.plan.params.len() {
            let (name, want, got) = (&self.plan.name, self.plan.params.len(), args.len());
            return Err(Error::type_error(format!("{name}: expected {want} arguments, got {got}")));
        }
        let mut frame = Frame {
            entry: self,
            slots: smallvec![0; self.plan.slots as usize],
            buffers: smallvec![0; self.plan.buffers as usize],
            stream: device::current_stream(self.device),
            words: SmallVec::new(),
            maps: SmallVec::new(),
        };
        for (at, (param, arg)) in self.plan.params.iter().zip(args).enumerate() {
            frame.bind(at, param, arg)?;
        }
        if !self.all_known {
            frame.check_shapes(args)?;
        }
        self.plan.checks.iter().try_for_each(|check| frame.check_indices(check, args))?;
        frame.run(self.plan.steps.len() as StepIndex - 1)?;
        Ok(Any::NONE)
    }

    fn prefix(&self, at: usize, name: &str) -> String {
        format!("{}: argument {at} ({name}): ", self.plan.name)
    }
}

/// A tensor map for values of variables. A tensor without elements has one all the same, as nothing is copied of it.
fn map_of(map: &HostMap, slots: &[i64]) -> TensorMap {
    let none = [0; TensorMap::MOST_DIMS];
    let (param, dtype, rank) = (map.param as usize, map.dtype, map.dims.len());
    let counts = [0; TensorMap::MOST_DIMS];
    let mut found = TensorMap { param, dtype, rank, extents: none, strides: none, counts };
    for (n, (extent, stride, count)) in map.dims.iter().enumerate() {
        found.extents[n] = extent.value(slots).max(1) as u64;
        found.strides[n] = (stride.value(slots) * dtype.itemsize() as i64) as u64;
        found.counts[n] = *count;
    }
    found
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
                self.slots[*slot as usize] = value;
                Ok(())
            }
            HostParam::Tensor { name, dtype, shape, buffer } => {
                let tensor = arg.as_dltensor().ok_or_else(|| {
                    let (prefix, got) = (self.entry.prefix(at, name), arg.type_key());
                    Error::type_error(format!("{prefix}expected a tensor, got {got}"))
                })?;
                let is_ours = tensor.dtype == *dtype && tensor.device == self.entry.device;
                let known =
                    self.entry.known[at].as_ref().filter(|known| is_ours && known.fits(tensor));
                let address = match known {
                    Some(_) => Ok((tensor.data.addr() as u64).wrapping_add(tensor.byte_offset)),
                    None => self.address(tensor, *dtype, shape),
                };
                let address = address.map_err(|what| {
                    Error::value_error(format!("{}{what}", self.entry.prefix(at, name)))
                })?;
                if known.is_none() && self.entry.all_known {
                    self.check_shape(at, name, shape, tensor)?;
                }
                self.buffers[*buffer as usize] = address;
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
                self.slots[slot as usize] = *given;
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
        for (at, (param, arg)) in self.entry.plan.params.iter().zip(args).enumerate() {
            let (HostParam::Tensor { name, shape, .. }, Some(tensor)) = (param, arg.as_dltensor())
            else {
                continue;
            };
            self.check_shape(at, name, shape, tensor)?;
        }
        Ok(())
    }

    fn check_shape(
        &self,
        at: usize,
        name: &str,
        shape: &[Extent],
        tensor: &DLTensor,
    ) -> Result<(), Error> {
        for (d, (extent, got)) in shape.iter().zip(dims(tensor)).enumerate() {
            let want = extent.value.value(&self.slots);
            if want != *got {
                let prefix = self.entry.prefix(at, name);
                let text = format!("{prefix}dimension {d}: expected {want}, got {got}");
                return Err(Error::value_error(text));
            }
        }
        Ok(())
    }

    /// Reads an index tensor and checks its elements. This waits for the device.
    fn check_indices(&self, check: &HostCheck, args: &[AnyView<'_>]) -> Result<(), Error> {
        let Some(tensor) = args[check.param as usize].as_dltensor() else { return Ok(()) };
        if dims(tensor).contains(&0) {
            return Ok(());
        }
        let copy = host_copy_of(tensor, Wait::IndexCheck)?;
        let values: Vec<i64> = match copy.dtype() {
            DType::I32 => copy.to_vec::<i32>()?.into_iter().map(i64::from).collect(),
            _ => copy.to_vec::<i64>()?,
        };
        let bounds: Vec<i64> = check.bounds.iter().map(|b| b.value(&self.slots)).collect();
        let whole = values.len() / bounds.len().max(1) * bounds.len();
        // As on CPUs: the first of the first bound that has one outside.
        for (first, bound) in bounds.iter().enumerate() {
            let mut of_bound = values[..whole].iter().skip(first).step_by(bounds.len());
            if let Some(bad) =
                of_bound.find(|value| !(bound.wrapping_neg()..*bound).contains(value))
            {
                let text = format!("{}{bad} is out of range for an axis of {bound}", check.message);
                return Err(Error::new("IndexError", text));
            }
        }
        Ok(())
    }

    fn run(&mut self, at: StepIndex) -> Result<(), Error> {
        match &self.entry.plan.steps[at as usize] {
            HostStep::Seq(steps) => steps.iter().try_for_each(|step| self.run(*step)),
            HostStep::Loop { slot, min, extent, body } => {
                let (min, extent) = (min.value(&self.slots), extent.value(&self.slots));
                for n in 0..extent {
                    self.slots[*slot as usize] = min.wrapping_add(n);
                    self.run(*body)?;
                }
                Ok(())
            }
            HostStep::If { cond, then, otherwise } => {
                match (cond.value(&self.slots) != 0, otherwise) {
                    (true, _) => self.run(*then),
                    (false, Some(otherwise)) => self.run(*otherwise),
                    (false, None) => Ok(()),
                }
            }
            HostStep::Let { slot, value, body } => {
                self.slots[*slot as usize] = value.value(&self.slots);
                self.run(*body)
            }
            HostStep::Allocate { buffer, count, dtype, body } => {
                let count = usize::try_from(count.value(&self.slots)).ok();
                let bytes = count.and_then(|count| dtype.bytes_for(count));
                let bytes = bytes.ok_or_else(|| {
                    let name = &self.entry.plan.name;
                    Error::value_error(format!("{name}: an intermediate has an impossible size"))
                })?;
                // Released when the launches are enqueued: what takes its memory comes after them.
                let block = OwnedBlock::new(device::get(self.entry.device)?.allocator(), bytes)?;
                self.buffers[*buffer as usize] = block.data().addr().get() as u64;
                self.run(*body)
            }
            HostStep::Launch(at) => self.launch(*at as usize),
        }
    }

    /// Copies tensors that boxes are copied of to where they are aligned, if they are not: a caller's own memory may
    /// begin anywhere. Returns the memory.
    fn align_maps(&mut self) -> Result<Vec<OwnedBlock>, Error> {
        let mut copies = vec![];
        for n in 0..self.maps.len() {
            let map = self.maps[n];
            let from = self.words[map.param];
            if from.is_multiple_of(TensorMap::ALIGN) {
                continue;
            }
            let (device, bytes) = (device::get(self.entry.device)?, map.bytes() as usize);
            let block = OwnedBlock::new(device.allocator(), bytes)?;
            let to = block.data().as_ptr();
            let from = std::ptr::with_exposed_provenance(from as usize);
            // SAFETY: the tensor has so many bytes, by the extents that were checked; the block is its own, and both are
            // used in the order of the stream.
            unsafe { device.copy(self.stream, to, from, bytes)? };
            self.words[map.param] = to.addr() as u64;
            copies.push(block);
        }
        Ok(copies)
    }

    /// The grid of a launch.
    fn blocks(&self, grid: &[HostExpr; 3]) -> Result<[u32; 3], Error> {
        let mut blocks = [0; 3];
        for (extent, blocks) in grid.iter().zip(&mut blocks) {
            let value = extent.value(&self.slots).max(0);
            *blocks = u32::try_from(value).map_err(|_| {
                let name = &self.entry.plan.name;
                Error::value_error(format!("{name}: {value} blocks of threads along one axis"))
            })?;
        }
        Ok(blocks)
    }

    fn launch(&mut self, at: usize) -> Result<(), Error> {
        let HostLaunch { grid, block, shared_bytes, buffers, vars, maps, .. } =
            &self.entry.plan.launches[at];
        let blocks = match self.entry.grids[at] {
            Some(blocks) => blocks,
            None => self.blocks(grid)?,
        };
        self.words.clear();
        self.words.extend(buffers.iter().map(|buffer| self.buffers[*buffer as usize]));
        self.words.extend(vars.iter().map(|slot| self.slots[*slot as usize] as u64));
        self.maps.clear();
        self.maps.extend(maps.iter().map(|map| map_of(map, &self.slots)));
        let (block, shared_bytes) = (*block, *shared_bytes);
        // Kept until the launch is enqueued: what takes their memory comes after it.
        let _copies = if blocks.contains(&0) { vec![] } else { self.align_maps()? };
        let (params, addresses, maps) = (&self.words[..], buffers.len(), &self.maps[..]);
        let launch =
            Launch { kernel: at, grid: blocks, block, shared_bytes, params, addresses, maps };
        // SAFETY: the words are those that the code generator lists for the kernel, of tensors
        // with the extents that it was generated for; of a file, whose PTX is as trusted as the machine
        // code of a library, its author listed them. Tensors are released, if at all, in the
        // order of this stream.
        unsafe { self.entry.kernels.launch(self.stream, &launch) }
    }
}
