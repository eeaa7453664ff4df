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
use reflex_runtime::device::{self, Launch, LoadedKernels, PreparedLaunch, Stream, TensorMap};
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
    /// Tensors among the parameters whose shapes are known before a call, and whether all parameters are such.
    known: Vec<Option<KnownTensor>>,
    all_known: bool,
    /// The grids of launches, where they are known before a call.
    grids: Vec<Option<[u32; 3]>>,
    prepared: Option<PreparedCall>,
}

/// A parameter whose extents are constants, with the strides of its elements in row-major order.
#[derive(Clone, Debug)]
struct KnownTensor {
    device: DLDevice,
    dtype: DType,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
}

/// The calls of a function that is one launch, whose parameters alone are other ones in each.
#[derive(Debug)]
struct PreparedCall {
    launch: Box<dyn PreparedLaunch>,
    /// The arguments, and which parameter of the kernel the address of each is: for those that are none, the number behind.
    args: Vec<(KnownTensor, usize)>,
    params: usize,
}

impl KnownTensor {
    fn of(param: &HostParam, device: DLDevice) -> Option<KnownTensor> {
        let HostParam::Tensor { dtype, shape, .. } = param else { return None };
        let shape = shape.iter().map(|extent| extent.value.as_int().filter(|n| *n > 0));
        let shape: Box<[i64]> = shape.collect::<Option<_>>()?;
        let mut strides = vec![1; shape.len()];
        for d in (1..shape.len()).rev() {
            strides[d - 1] = shape[d].checked_mul(strides[d])?;
        }
        Some(KnownTensor { device, dtype: *dtype, shape, strides: strides.into() })
    }

    /// The address of a tensor with elements that is of this type and shape, in row-major order. A quick look: where it
    /// says no, the checks that name what is wrong follow, which let other strides of single elements pass.
    #[inline]
    fn address(&self, tensor: &DLTensor) -> Option<u64> {
        let is_alike = tensor.dtype == self.dtype && tensor.device == self.device;
        if !is_alike || tensor.data.is_null() || !are_equal(dims(tensor), &self.shape) {
            return None;
        }
        if !tensor.strides.is_null() {
            // SAFETY: strides that are there are as many as dimensions.
            let strides = unsafe { std::slice::from_raw_parts(tensor.strides, self.shape.len()) };
            if !are_equal(strides, &self.strides) {
                return None;
            }
        }
        Some(address_of(tensor))
    }
}

/// Whether lists are equal that are too short for a call of the library's comparison.
#[inline]
fn are_equal(a: &[i64], b: &[i64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b)
}

/// The address of a tensor's first element.
#[inline]
fn address_of(tensor: &DLTensor) -> u64 {
    (tensor.data.addr() as u64).wrapping_add(tensor.byte_offset)
}

impl PreparedCall {
    fn of(
        plan: &HostPlan,
        kernels: &Arc<dyn LoadedKernels>,
        known: &[Option<KnownTensor>],
        grids: &[Option<[u32; 3]>],
    ) -> Option<PreparedCall> {
        let mut launches = vec![];
        for step in &plan.steps {
            match step {
                HostStep::Seq(_) => {}
                HostStep::Launch(at) => launches.push(*at as usize),
                _ => return None,
            }
        }
        let [kernel] = launches[..] else { return None };
        let HostLaunch { block, shared_bytes, buffers, vars, maps, .. } = &plan.launches[kernel];
        let params = buffers.len();
        if !plan.checks.is_empty() || !vars.is_empty() || !maps.is_empty() || params >= FEW {
            return None;
        }
        let mut args = vec![];
        for (param, known) in plan.params.iter().zip(known) {
            let HostParam::Tensor { buffer, .. } = param else { return None };
            let at = buffers.iter().position(|of| of == buffer);
            args.push((known.clone()?, at.unwrap_or(params)));
        }
        let is_given = |at: &usize| args.iter().filter(|(_, param)| param == at).count() == 1;
        if !(0..params).all(|at| is_given(&at)) {
            return None;
        }
        let (grid, block, shared_bytes) = (grids[kernel]?, *block, *shared_bytes);
        let (addresses, maps) = (params, &[][..]);
        let launch = Launch { kernel, grid, block, shared_bytes, params: &[], addresses, maps };
        Some(PreparedCall { launch: Arc::clone(kernels).prepare(&launch)?, args, params })
    }

    /// Launches it, unless an argument is not what it mostly is. As many arguments are given as there have to be.
    #[inline]
    fn launch(&self, stream: Stream, args: &[AnyView<'_>]) -> Option<Result<(), Error>> {
        let mut words = [0; FEW];
        for ((known, param), arg) in self.args.iter().zip(args) {
            words[*param] = known.address(arg.as_dltensor()?)?;
        }
        // SAFETY: as for `Frame::launch`: these are the kernel's parameters, each the address of a tensor with the extents
        // that it was generated for.
        Some(unsafe { self.launch.launch(stream, &words[..self.params]) })
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
        let device = device.id();
        let known = plan.params.iter().map(|param| KnownTensor::of(param, device));
        let known: Vec<Option<KnownTensor>> = known.collect();
        let all_known = known.iter().all(Option::is_some);
        let grid = |launch: &HostLaunch| {
            let [x, y, z] = launch.grid.each_ref().map(|n| u32::try_from(n.as_int()?).ok());
            Some([x?, y?, z?])
        };
        let grids: Vec<_> = plan.launches.iter().map(grid).collect();
        let prepared = PreparedCall::of(&plan, &kernels, &known, &grids);
        HostEntry { plan, device, kernels, known, all_known, grids, prepared }
    }

    /// The function in the packed convention. It returns once its launches are enqueued.
    pub(super) fn call(&self, args: &[AnyView<'_>]) -> Result<Any, Error> {
        let stream = device::current_stream(self.device);
        if args.len() == self.plan.params.len()
            && let Some(prepared) = &self.prepared
            && let Some(launched) = prepared.launch(stream, args)
        {
            return launched.map(|()| Any::NONE);
        }
        self.call_by_plan(stream, args)
    }

    #[inline(never)]
    fn call_by_plan(&self, stream: Stream, args: &[AnyView<'_>]) -> Result<Any, Error> {
        if args.len() != self.plan.params.len() {
            let (name, want, got) = (&self.plan.name, self.plan.params.len(), args.len());
            return Err(Error::type_error(format!("{name}: expected {want} arguments, got {got}")));
        }
        let mut frame = Frame {
            entry: self,
            slots: smallvec![0; self.plan.slots as usize],
            buffers: smallvec![0; self.plan.buffers as usize],
            stream,
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
                let known = self.entry.known[at].as_ref().and_then(|known| known.address(tensor));
                let address = match known {
                    Some(address) => Ok(address),
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
        Ok(address_of(tensor))
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

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use reflex_runtime::device::CodeSource;
    use reflex_runtime::tensor::Tensor;

    use super::*;

    /// The parameters of launches, and whether each was prepared.
    type Log = Arc<Mutex<Vec<(bool, Vec<u64>)>>>;

    #[derive(Debug)]
    struct Logged {
        log: Log,
        is_prepared: bool,
    }

    impl LoadedKernels for Logged {
        fn source(&self) -> &CodeSource {
            &CodeSource::Text { refused: None }
        }

        unsafe fn launch(&self, _: Stream, launch: &Launch<'_>) -> Result<(), Error> {
            self.log.lock().push((self.is_prepared, launch.params.to_vec()));
            Ok(())
        }

        fn prepare(self: Arc<Self>, _: &Launch<'_>) -> Option<Box<dyn PreparedLaunch>> {
            Some(Box::new(Logged { log: Arc::clone(&self.log), is_prepared: true }))
        }
    }

    impl PreparedLaunch for Logged {
        unsafe fn launch(&self, _: Stream, params: &[u64]) -> Result<(), Error> {
            self.log.lock().push((self.is_prepared, params.to_vec()));
            Ok(())
        }
    }

    /// A function of two matrices `x` and `y`, the first one of so many columns, whose launch has `y` first.
    fn plan(columns: HostExpr) -> HostPlan {
        let param = |name: &str, columns, buffer| {
            let extent = |value| Extent { value, binds: None };
            let shape = vec![extent(HostExpr::int(2)), extent(columns)];
            HostParam::Tensor { name: name.to_owned(), dtype: DType::F32, shape, buffer }
        };
        let one = HostExpr::int(1);
        let launch = HostLaunch {
            kernel: "k".to_owned(),
            grid: [one.clone(), one.clone(), one],
            block: [32, 1, 1],
            shared_bytes: 0,
            buffers: vec![1, 0],
            vars: vec![],
            maps: vec![],
        };
        HostPlan {
            name: "f".to_owned(),
            params: vec![param("x", columns, 0), param("y", HostExpr::int(3), 1)],
            checks: vec![],
            steps: vec![HostStep::Launch(0)],
            slots: 0,
            buffers: 2,
            launches: vec![launch],
        }
    }

    #[test]
    fn launches_of_known_shapes_are_prepared_and_refused_as_others() {
        let three = HostExpr::int(3);
        let product = three.clone().times(HostExpr::int(1));
        assert_eq!(product.as_int(), None, "this one is computed");
        let device = device::get(DLDevice::CPU).unwrap();
        let tensor = |shape: &[i64]| Any::from(Tensor::empty(shape, DType::F32).unwrap());
        let (x, y, wide) = (tensor(&[2, 3]), tensor(&[2, 3]), tensor(&[2, 4]));
        let address = |any: &Any| any.downcast_ref::<Tensor>().unwrap().data_ptr().addr() as u64;
        for (columns, is_prepared) in [(three, true), (product, false)] {
            let log = Log::default();
            let kernels = Logged { log: Arc::clone(&log), is_prepared: false };
            let entry = HostEntry::new(plan(columns), device, Arc::new(kernels));
            entry.call(&[x.view(), y.view()]).unwrap();
            assert_eq!(*log.lock(), [(is_prepared, vec![address(&y), address(&x)])]);
            let refused =
                |args: &[AnyView<'_>]| entry.call(args).unwrap_err().message().into_owned();
            let text = refused(&[wide.view(), y.view()]);
            assert_eq!(text, "f: argument 0 (x): dimension 1: expected 3, got 4");
            let text = refused(&[x.view(), AnyView::from(1_i64)]);
            assert_eq!(text, "f: argument 1 (y): expected a tensor, got int");
            assert_eq!(refused(&[x.view()]), "f: expected 2 arguments, got 1");
            assert_eq!(log.lock().len(), 1);
        }
    }
}
