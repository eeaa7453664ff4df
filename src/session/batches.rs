//! Calls on a device as batches: the launches of a call are recorded once for arguments of the same shapes,
//! and replayed as one object.
//!
//! That is sound where a call's launches follow from the shapes of its arguments: the program calls kernels
//! and builtins without a state alone, and the host looks at no value (a recording with a wait is
//! spoiled). The recording is a run of its own on copies of the arguments, whose addresses nothing else
//! has; results are thrown away. So parameters with the address of a copy are that argument's, and those
//! with the address of a result are that result's.
//!
//! Decision: docs/decisions/0074-batches.md

use std::fmt;

use reflex_runtime::abi::DLDevice;
use reflex_runtime::array::Array;
use reflex_runtime::device::batch::{Batch, Change, Recorded, Unrecorded, record};
use reflex_runtime::device::{Device, Stream, TensorMap};
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::executable::{Executable, FuncKind, Function};
use smallvec::SmallVec;

/// Calls with the same shapes before they are recorded.
const BEFORE: u32 = 3;
/// The most combinations of shapes that a session counts.
const MOST: usize = 32;

/// Builtins whose effect follows from shapes alone, or that wait for values, which spoils a recording.
const BUILTINS: [&str; 21] = [
    "vm.builtin.alloc_shape_heap",
    "vm.builtin.alloc_storage",
    "vm.builtin.alloc_tensor",
    "vm.builtin.check_prim_value_info",
    "vm.builtin.check_shape_info",
    "vm.builtin.check_tensor_info",
    "vm.builtin.check_tuple_info",
    "vm.builtin.copy",
    "vm.builtin.ensure_zero_offset",
    "vm.builtin.make_prim_value",
    "vm.builtin.make_shape",
    "vm.builtin.make_tuple",
    "vm.builtin.match_prim_value",
    "vm.builtin.match_shape",
    "vm.builtin.null_value",
    "vm.builtin.read_if_cond",
    "vm.builtin.reshape",
    "vm.builtin.shape_of",
    "vm.builtin.tensor_to_shape",
    "vm.builtin.tuple_getitem",
    "vm.builtin.tuple_reset_item",
];

/// Builtins that keep memory from call to call. It is there before a call is recorded, so they may be in a
/// batch; the memory of a caller's results must not be kept.
const KEEPING: [&str; 2] =
    ["vm.builtin.cuda_graph.get_cached_alloc", "vm.builtin.cuda_graph.run_or_capture"];

/// Names a function of a program that a batch cannot hold.
pub(crate) fn obstacle(
    executable: &Executable,
    is_kernel: impl Fn(&str) -> bool,
) -> Option<String> {
    impurity(executable, |name| KEEPING.contains(&name) || is_kernel(name))
}

/// Names a function of unknown effect that a program calls: no kernel, and no such builtin.
pub(crate) fn impurity(
    executable: &Executable,
    is_kernel: impl Fn(&str) -> bool,
) -> Option<String> {
    let impure = |f: &&Function| match f.kind {
        FuncKind::Vm => false,
        FuncKind::VmTir => true,
        FuncKind::Packed => !BUILTINS.contains(&&f.name[..]) && !is_kernel(&f.name),
    };
    let found = executable.functions.iter().find(impure);
    found.map(|f| format!("the program calls {}", f.name))
}

/// The batches of a session.
pub(super) struct Batches {
    id: DLDevice,
    device: &'static dyn Device,
    stream: Stream,
    /// Why no call can be a batch.
    impurity: Option<String>,
    calls: Vec<Call>,
}

/// A function with arguments of certain shapes.
struct Call {
    func: u32,
    args: Vec<ArgKey>,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum ArgKey {
    Tensor(DType, Vec<i64>),
    Int(i64),
}

enum State {
    /// So many calls were interpreted.
    Interpreted(u32),
    Ready(Box<Replay>),
    /// It cannot be a batch, for this reason.
    Refused(String),
}

/// A batch with the places of addresses that change.
struct Replay {
    batch: Box<dyn Batch>,
    launches: usize,
    places: Vec<Place>,
    /// The results in order of their tensors.
    outputs: Vec<(DType, Vec<i64>)>,
    result: Template,
    replays: u64,
    /// Addresses of the arguments and results of the last replay; none where it failed.
    last: Vec<u64>,
    /// The addresses and the changes of a replay, whose memory is used again.
    addresses: Vec<u64>,
    changes: Vec<Change>,
}

/// A parameter that is the address of an argument or a result.
struct Place {
    launch: usize,
    param: usize,
    of: Source,
}

#[derive(Clone, Copy)]
enum Source {
    Argument(usize),
    Output(usize),
}

/// The result of a call.
enum Template {
    Output(usize),
    Argument(usize),
    Value(Any),
    Tuple(Vec<Template>),
}

/// The calls of a session on a device as batches: a line for each function and combination of shapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchReport {
    /// Calls that are batches: the function's number, launches, replays.
    pub ready: Vec<(u32, usize, u64)>,
    /// Calls that cannot be, with the reason.
    pub refused: Vec<(u32, String)>,
}

impl fmt::Display for BatchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (func, launches, replays) in &self.ready {
            writeln!(f, "function {func}: {launches} launches in a batch, {replays} replays")?;
        }
        self.refused
            .iter()
            .try_for_each(|(func, why)| writeln!(f, "function {func}: no batch: {why}"))
    }
}

impl ArgKey {
    fn of(arg: &AnyView<'_>) -> Option<ArgKey> {
        match arg.downcast_ref::<Tensor>() {
            Some(tensor) => Some(ArgKey::Tensor(tensor.dtype(), tensor.shape().to_vec())),
            None => arg.as_int().map(ArgKey::Int),
        }
    }

    fn fits(&self, arg: &AnyView<'_>) -> bool {
        match (self, arg.downcast_ref::<Tensor>()) {
            (ArgKey::Tensor(dtype, shape), Some(tensor)) => {
                let dims = tensor.shape();
                // Shapes are too short for a call of the library's comparison.
                let alike =
                    dims.len() == shape.len() && dims.iter().zip(shape).all(|(a, b)| a == b);
                alike && tensor.dtype() == *dtype
            }
            (ArgKey::Int(value), None) => arg.as_int() == Some(*value),
            _ => false,
        }
    }
}

impl Batches {
    pub(super) fn new(
        device: &'static dyn Device,
        stream: Stream,
        impurity: Option<String>,
    ) -> Batches {
        Batches { id: device.id(), device, stream, impurity, calls: vec![] }
    }

    pub(super) fn report(&self) -> BatchReport {
        let mut report = BatchReport::default();
        for call in &self.calls {
            match &call.state {
                State::Interpreted(_) => {}
                State::Ready(r) => report.ready.push((call.func, r.launches, r.replays)),
                State::Refused(why) => report.refused.push((call.func, why.clone())),
            }
        }
        report
    }

    fn find(&self, func: u32, args: &[AnyView<'_>]) -> Option<usize> {
        self.calls.iter().position(|call| {
            let fits = || call.args.iter().zip(args).all(|(key, arg)| key.fits(arg));
            call.func == func && call.args.len() == args.len() && fits()
        })
    }

    /// Replays a call, if it is a batch. The stream is entered, and arguments are on the device.
    pub(super) fn replay(
        &mut self,
        func: u32,
        args: &[AnyView<'_>],
    ) -> Option<Result<Any, Raised>> {
        let at = self.find(func, args)?;
        let State::Ready(replay) = &mut self.calls[at].state else { return None };
        replay.take_arguments(args)?;
        Some(replay.run(self.id, args))
    }

    /// Counts a call that was interpreted. Returns true if it is to be recorded now.
    pub(super) fn interpreted(&mut self, func: u32, args: &[AnyView<'_>]) -> bool {
        let Some(at) = self.find(func, args) else {
            if self.calls.len() < MOST
                && let Some(args) = args.iter().map(ArgKey::of).collect()
            {
                self.calls.push(Call { func, args, state: State::Interpreted(1) });
            }
            return false;
        };
        let State::Interpreted(count) = &mut self.calls[at].state else { return false };
        *count += 1;
        if *count <= BEFORE {
            return false;
        }
        match &self.impurity {
            Some(why) => self.calls[at].state = State::Refused(why.clone()),
            None => return true,
        }
        false
    }

    /// Records a call, which `run` makes with the arguments that it is given. The stream is entered.
    pub(super) fn record(
        &mut self,
        func: u32,
        args: &[AnyView<'_>],
        run: impl FnOnce(&[Any]) -> Result<Any, Raised>,
    ) {
        let Some(at) = self.find(func, args) else { return };
        self.calls[at].state = match self.recorded(args, run) {
            Ok(replay) => {
                tracing::debug!(func, launches = replay.launches, "a call is a batch");
                State::Ready(Box::new(replay))
            }
            Err(why) => {
                tracing::debug!(func, why, "a call cannot be a batch");
                State::Refused(why)
            }
        };
    }

    fn recorded(
        &self,
        args: &[AnyView<'_>],
        run: impl FnOnce(&[Any]) -> Result<Any, Raised>,
    ) -> Result<Replay, String> {
        let text = |e: Raised| e.message().into_owned();
        let copy = |arg: &AnyView<'_>| match arg.downcast_ref::<Tensor>() {
            Some(tensor) if tensor.nbytes() == 0 => Err("an argument has no elements".to_owned()),
            Some(tensor) => tensor.copy_to(self.id).map(Any::from).map_err(text),
            None => Ok(arg.to_owned()),
        };
        let copies = args.iter().map(copy).collect::<Result<Vec<Any>, _>>()?;
        let (result, recorded) = record(self.id, || run(&copies)).map_err(|(arena, why)| {
            self.device.end_arena(arena);
            match why {
                Unrecorded::Failed(error) => text(error),
                Unrecorded::Spoiled(why) => why.to_owned(),
            }
        })?;
        let found = Found::of(self.device, &recorded, &copies, &result);
        drop(result);
        let found = found.inspect_err(|_| self.device.end_arena(recorded.arena))?;
        let Found { places, outputs, result } = found;
        let launches = recorded.launches.len();
        let batch = self.device.batch(self.stream, recorded).map_err(text)?;
        let (last, addresses, changes) = (vec![], vec![], vec![]);
        Ok(Replay {
            batch,
            launches,
            places,
            outputs,
            result,
            replays: 0,
            last,
            addresses,
            changes,
        })
    }
}

/// The meaning of a recording's addresses.
struct Found {
    places: Vec<Place>,
    outputs: Vec<(DType, Vec<i64>)>,
    result: Template,
}

impl Found {
    fn of(
        device: &dyn Device,
        recorded: &Recorded,
        copies: &[Any],
        result: &Any,
    ) -> Result<Found, String> {
        if recorded.launches.is_empty() {
            return Err("nothing is launched".to_owned());
        }
        let mut tensors = vec![];
        let template = template(device, recorded, copies, result, &mut tensors)?;
        let range = |tensor: &Tensor| {
            let start = tensor.data_ptr().addr() as u64;
            (start, start + tensor.nbytes() as u64)
        };
        let of_arguments = copies.iter().enumerate().filter_map(|(n, copy)| {
            Some((range(copy.downcast_ref::<Tensor>()?), Source::Argument(n)))
        });
        let of_outputs =
            tensors.iter().enumerate().map(|(n, tensor)| (range(tensor), Source::Output(n)));
        let known: Vec<((u64, u64), Source)> = of_arguments.chain(of_outputs).collect();
        let overlap = |(a, b): (u64, u64), (c, d): (u64, u64)| a < d && c < b;
        for (n, (range, _)) in known.iter().enumerate() {
            if known[..n].iter().any(|(other, _)| overlap(*range, *other)) {
                return Err("results share memory".to_owned());
            }
        }
        let mut places = vec![];
        for (launch, entry) in recorded.launches.iter().enumerate() {
            for (param, address) in entry.params[..entry.addresses].iter().enumerate() {
                let of = known.iter().find(|((start, end), _)| (*start..*end).contains(address));
                match of {
                    Some(((start, _), of)) if start == address => {
                        places.push(Place { launch, param, of: *of });
                        continue;
                    }
                    Some(_) => return Err("a launch has a part of a tensor".to_owned()),
                    None => {}
                }
                // Results alone live on: an earlier user of a result's block had more of it.
                let address = std::ptr::without_provenance(*address as usize);
                if device.stream_of(address) == Some(recorded.arena.owner()) {
                    return Err("a result's memory has other parts".to_owned());
                }
            }
        }
        let outputs = tensors.iter().map(|t| (t.dtype(), t.shape().to_vec())).collect();
        Ok(Found { places, outputs, result: template })
    }
}

/// The result with places for its tensors, which are added to `tensors`.
fn template(
    device: &dyn Device,
    recorded: &Recorded,
    copies: &[Any],
    value: &Any,
    tensors: &mut Vec<Tensor>,
) -> Result<Template, String> {
    if let Some(items) = value.downcast_ref::<Array>() {
        let items = items.iter().map(|item| template(device, recorded, copies, item, tensors));
        return Ok(Template::Tuple(items.collect::<Result<_, _>>()?));
    }
    let Some(tensor) = value.downcast_ref::<Tensor>() else {
        return Ok(Template::Value(value.clone()));
    };
    if tensor.device() != device.id() {
        return Err("a result is in host memory".to_owned());
    }
    let address = tensor.data_ptr();
    let same =
        |copy: &Any| copy.downcast_ref::<Tensor>().is_some_and(|copy| copy.data_ptr() == address);
    if let Some(n) = copies.iter().position(same) {
        let copy = copies[n].downcast_ref::<Tensor>();
        return match copy
            .is_some_and(|c| c.shape() == tensor.shape() && c.dtype() == tensor.dtype())
        {
            true => Ok(Template::Argument(n)),
            false => Err("a result is a view of an argument".to_owned()),
        };
    }
    if tensor.nbytes() == 0 {
        return Err("a result has no elements".to_owned());
    }
    if device.stream_of(address) != Some(recorded.arena.owner()) {
        // A constant, which every call returns.
        return Ok(Template::Value(value.clone()));
    }
    tensors.push(tensor.clone());
    Ok(Template::Output(tensors.len() - 1))
}

impl Replay {
    /// Takes the addresses of arguments. None where one is not as it was recorded: kernels that copy boxes have aligned ones.
    fn take_arguments(&mut self, args: &[AnyView<'_>]) -> Option<()> {
        self.addresses.clear();
        for arg in args {
            let address = match arg.downcast_ref::<Tensor>() {
                Some(tensor) if !tensor.is_compact() => return None,
                Some(tensor) => tensor.data_ptr().addr() as u64,
                None => 0,
            };
            if !address.is_multiple_of(TensorMap::ALIGN) {
                return None;
            }
            self.addresses.push(address);
        }
        Some(())
    }

    /// Replays the batch with the arguments whose addresses were taken.
    fn run(&mut self, device: DLDevice, args: &[AnyView<'_>]) -> Result<Any, Raised> {
        let mut outputs = SmallVec::<[Tensor; 2]>::new();
        for (dtype, shape) in &self.outputs {
            let output = Tensor::empty_on(device, shape, *dtype)?;
            self.addresses.push(output.data_ptr().addr() as u64);
            outputs.push(output);
        }
        self.changes.clear();
        // The batch has the addresses of the last replay.
        let is_new = self.last.len() != self.addresses.len();
        if is_new || self.addresses.iter().zip(&self.last).any(|(now, last)| now != last) {
            for place in &self.places {
                let address = match place.of {
                    Source::Argument(n) => self.addresses[n],
                    Source::Output(n) => self.addresses[args.len() + n],
                };
                let (launch, param) = (place.launch, place.param);
                self.changes.push(Change { launch, param, value: address });
            }
        }
        self.last.clear();
        // SAFETY: arguments have the types and shapes of those that were recorded, results are new, and
        // both are released, if at all, in the order of the stream. The program, which has the kernels,
        // outlives its sessions.
        unsafe { self.batch.replay(&self.changes)? };
        std::mem::swap(&mut self.last, &mut self.addresses);
        self.replays += 1;
        if let Template::Output(_) = self.result
            && let Some(only) = outputs.pop()
        {
            return Ok(only.into());
        }
        Ok(self.result.fill(args, &outputs))
    }
}

impl Template {
    fn fill(&self, args: &[AnyView<'_>], outputs: &[Tensor]) -> Any {
        match self {
            Template::Output(n) => outputs[*n].clone().into(),
            Template::Argument(n) => args[*n].to_owned(),
            Template::Value(value) => value.clone(),
            Template::Tuple(items) => {
                let items = items.iter().map(|item| item.fill(args, outputs));
                Array::new(items.collect::<Vec<Any>>()).into()
            }
        }
    }
}
