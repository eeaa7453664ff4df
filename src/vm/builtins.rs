//! The `vm.builtin.*` functions: one table, and what each row needs.
//!
//! A row has a name, a signature (for the verifier), what its results are and whose code
//! it runs (for tiers), the code the interpreter runs, an extra verifier rule, and how
//! machine code does the same: one of the forms in [`Lowering`], which tiers match on
//! without a default arm. Error kinds and meanings are TVM's.
//!
//! What is not here: the KV-cache, sampling, tensor-cache and disco groups.
//! A program that needs one is refused at load, by name, unless the host registered a
//! global function of that name.

mod check;
mod memory;
mod registry;
mod rules;
mod shape;
mod value;

pub use check::condition;
pub use rules::Call;
pub use shape::{make_code, match_code};
pub use value::Closure;

use std::ffi::c_void;

use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::value::{Any, AnyView};

/// What a builtin may know about who calls it.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The value of `%vm`, or null outside a session.
    pub vm: *mut c_void,
}

/// Code of a builtin.
pub type Run = fn(Context, &[AnyView<'_>]) -> Result<Any, Error>;

/// What an argument must be, as far as it is known before running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Param {
    /// Anything.
    Any,
    /// `%vm`.
    Vm,
    /// An integer.
    Int,
    /// An element type.
    DType,
    /// A string, or None.
    Text,
    /// A shape.
    Shape,
    /// A shape heap, or None where no code uses it.
    Heap,
    /// A function.
    Func,
}

/// How many arguments may follow the parameters that are always there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tail {
    /// None.
    Fixed,
    /// This many may be left out at the end.
    Optional(usize),
    /// Any number of any kind.
    Variadic,
}

type Rule = fn(&Call<'_>) -> Result<(), String>;

/// What every result of a builtin is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultKind {
    /// No value.
    None,
    /// An integer.
    Int,
    /// A boolean.
    Bool,
    /// A tensor object.
    Tensor,
    /// A shape.
    Shape,
    /// A tuple.
    Tuple,
    /// It depends on the call.
    Any,
}

/// Whether a builtin may run code that calls back into the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reentrancy {
    /// A leaf: runs code of the VM alone.
    Leaf,
    /// May run functions of the host, or destructors of its objects, which may call back.
    MayReenter,
}

/// How machine code does what a builtin does. Tiers match on it without a default arm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lowering {
    /// Written out: a comparison of a tensor's rank and element type.
    CheckTensor,
    /// Written out: a comparison of a shape's rank.
    CheckShape,
    /// Written out: a comparison of a tuple's length.
    CheckTuple,
    /// Written out: comparisons and stores of extents.
    MatchShape,
    /// Written out: a comparison or store of an integer.
    MatchPrimValue,
    /// Written out: a constant or a load.
    MakePrimValue,
    /// Written out: a load of the truth.
    ReadIfCond,
    /// Written out: a load of an item.
    TupleItem,
    /// Written out: comparisons of a value's type.
    CheckType,
    /// Written out where nothing is to be copied: a second reference.
    ZeroOffset,
    /// Written out: nothing is left of it.
    Elided,
    /// A call, unless the storage of the operation's last run came back.
    RecycleStorage,
    /// A call, unless the tensor of the operation's last run came back.
    RecycleTensor,
    /// A call, unless the shape heap of the operation's last run came back.
    RecycleHeap,
    /// A call, unless the shape of the operation's last run came back.
    RecycleShape,
    /// A call, unless the tuple of the operation's last run came back.
    RecycleTuple,
    /// A call, unless the closure of the operation's last run came back.
    RecycleClosure,
    /// A call, unless the view of the operation's last run came back, and a view is possible.
    RecycleView,
    /// A call: it does not matter beside what the builtin does, or it is rare.
    Call,
}

impl Lowering {
    /// Whether every result is a new object that may be made of an old one.
    pub const fn recycles(self) -> bool {
        use Lowering::{
            RecycleClosure, RecycleHeap, RecycleShape, RecycleStorage, RecycleTensor, RecycleTuple,
        };
        let memory = matches!(self, RecycleStorage | RecycleTensor | RecycleHeap | RecycleShape);
        memory || matches!(self, RecycleTuple | RecycleClosure | Lowering::RecycleView)
    }

    /// Whether it reads its first argument and constants, and does nothing but fail.
    pub const fn is_check(self) -> bool {
        use Lowering::{CheckShape, CheckTensor, CheckTuple, CheckType, MatchShape};
        matches!(self, CheckTensor | CheckShape | CheckTuple | CheckType | MatchShape)
    }

    /// Arguments, from the first on, whose type the written-out form relies on.
    pub const fn typed_args(self) -> usize {
        match self {
            Lowering::MatchShape | Lowering::MatchPrimValue => 2,
            Lowering::CheckTensor
            | Lowering::CheckShape
            | Lowering::CheckTuple
            | Lowering::MakePrimValue
            | Lowering::ReadIfCond
            | Lowering::TupleItem
            | Lowering::ZeroOffset => 1,
            Lowering::Elided
            | Lowering::CheckType
            | Lowering::RecycleStorage
            | Lowering::RecycleTensor
            | Lowering::RecycleHeap
            | Lowering::RecycleShape
            | Lowering::RecycleTuple
            | Lowering::RecycleClosure
            | Lowering::RecycleView
            | Lowering::Call => 0,
        }
    }
}

macro_rules! builtins {
    ($(
        $(#[$doc:meta])*
        $id:ident = $name:literal [$($param:ident),*] $tail:expr => $result_kind:ident in $reentrancy:ident,
        $run:path, $rule:path, $lowering:ident;
    )*) => {
        /// A builtin.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Builtin { $($(#[$doc])* $id),* }

        impl Builtin {
            /// Every builtin, in table order.
            pub const ALL: &'static [Builtin] = &[$(Builtin::$id),*];

            /// The name programs call it by.
            pub const fn name(self) -> &'static str {
                match self { $(Builtin::$id => $name),* }
            }

            /// Its parameters; the last may be optional, and more may follow.
            pub const fn params(self) -> (&'static [Param], Tail) {
                match self { $(Builtin::$id => (&[$(Param::$param),*], $tail)),* }
            }

            /// What every result is.
            pub const fn result_kind(self) -> ResultKind {
                match self { $(Builtin::$id => ResultKind::$result_kind),* }
            }

            /// Whether it may run code that calls back.
            pub const fn reentrancy(self) -> Reentrancy {
                match self { $(Builtin::$id => Reentrancy::$reentrancy),* }
            }

            /// Its code.
            pub const fn run(self) -> Run {
                match self { $(Builtin::$id => $run),* }
            }

            const fn rule(self) -> Rule {
                match self { $(Builtin::$id => $rule),* }
            }

            /// How machine code does it.
            pub const fn lowering(self) -> Lowering {
                match self { $(Builtin::$id => Lowering::$lowering),* }
            }
        }
    };
}

// Name, parameters, tail => result in whose code; interpreter, verifier rule, machine code.
builtins! {
    /// `(vm, size)`: an int64 tensor that holds symbolic extents.
    AllocShapeHeap = "vm.builtin.alloc_shape_heap" [Vm, Int] Tail::Fixed => Tensor in Leaf,
        shape::alloc_shape_heap, rules::none, RecycleHeap;
    /// `(x, heap, n, (code, reg) * n, context)`: checks and binds the extents of `x`.
    MatchShape = "vm.builtin.match_shape" [Any, Heap, Int] Tail::Variadic => None in Leaf,
        shape::match_shape, rules::match_shape, MatchShape;
    /// `(value, heap, code, reg, context)`: checks or binds one integer.
    MatchPrimValue = "vm.builtin.match_prim_value" [Any, Heap, Int, Int, Text] Tail::Fixed => None in Leaf,
        shape::match_prim_value, rules::match_prim_value, MatchPrimValue;
    /// `(heap, n, (code, reg) * n)`: a shape of constants and heap entries.
    MakeShape = "vm.builtin.make_shape" [Heap, Int] Tail::Variadic => Shape in Leaf,
        shape::make_shape, rules::make_shape, RecycleShape;
    /// `(heap, code, reg)`: one integer from a constant or the heap.
    MakePrimValue = "vm.builtin.make_prim_value" [Heap, Int, Int] Tail::Fixed => Int in Leaf,
        shape::make_prim_value, rules::make_prim_value, MakePrimValue;
    /// `(x, ndim, dtype?, context)`: `x` is a tensor of this rank (-1: any) and type.
    CheckTensorInfo = "vm.builtin.check_tensor_info" [Any, Int, Any] Tail::Variadic => None in Leaf,
        check::check_tensor_info, rules::check_tensor_info, CheckTensor;
    /// `(x, ndim, context)`: `x` is a shape of this rank (-1: any).
    CheckShapeInfo = "vm.builtin.check_shape_info" [Any, Int, Text] Tail::Fixed => None in Leaf,
        check::check_shape_info, rules::none, CheckShape;
    /// `(x, dtype, context)`: `x` is a scalar that converts to this type.
    CheckPrimValueInfo = "vm.builtin.check_prim_value_info" [Any, DType, Text] Tail::Fixed => None in Leaf,
        check::check_prim_value_info, rules::none, CheckType;
    /// `(x, context)`: `x` is a string.
    CheckStringInfo = "vm.builtin.check_string_info" [Any, Text] Tail::Fixed => None in Leaf,
        check::check_string_info, rules::none, CheckType;
    /// `(x, n, context)`: `x` is a tuple of `n` items.
    CheckTupleInfo = "vm.builtin.check_tuple_info" [Any, Int, Text] Tail::Fixed => None in Leaf,
        check::check_tuple_info, rules::none, CheckTuple;
    /// `(x, context)`: `x` is a function or closure.
    CheckFuncInfo = "vm.builtin.check_func_info" [Any, Text] Tail::Fixed => None in Leaf,
        check::check_func_info, rules::none, CheckType;
    /// `(vm, shape, device, dtype, scope)`: memory for tensors.
    AllocStorage = "vm.builtin.alloc_storage" [Vm, Shape, Int, DType, Text] Tail::Optional(1) => Any in Leaf,
        memory::alloc_storage, rules::none, RecycleStorage;
    /// `(storage, offset, shape, dtype, scope?)`: a tensor in a storage.
    AllocTensor = "vm.builtin.alloc_tensor" [Any, Int, Shape, DType, Text] Tail::Optional(1) => Tensor in Leaf,
        memory::alloc_tensor, rules::none, RecycleTensor;
    /// `()`: None; written over a register to release what it held.
    NullValue = "vm.builtin.null_value" [] Tail::Fixed => None in Leaf,
        value::null_value, rules::none, Elided;
    /// `(x)`: `x`.
    Copy = "vm.builtin.copy" [Any] Tail::Fixed => Any in Leaf,
        value::copy, rules::none, Call;
    /// `(tensor, shape)`: the same data under another shape.
    Reshape = "vm.builtin.reshape" [Any, Shape] Tail::Fixed => Tensor in Leaf,
        memory::reshape, rules::none, RecycleView;
    /// `(tensor)`: its shape.
    ShapeOf = "vm.builtin.shape_of" [Any] Tail::Fixed => Shape in Leaf,
        shape::shape_of, rules::none, RecycleShape;
    /// `(tensor)`: the shape that the elements of a vector spell.
    TensorToShape = "vm.builtin.tensor_to_shape" [Any] Tail::Fixed => Shape in Leaf,
        shape::tensor_to_shape, rules::none, Call;
    /// `(tensor, device type, device id, scope?)`: a copy on a device.
    ToDevice = "vm.builtin.to_device" [Any, Int, Int, Text] Tail::Optional(1) => Tensor in Leaf,
        memory::to_device, rules::none, Call;
    /// `(tensor)`: the tensor with a byte offset of zero.
    EnsureZeroOffset = "vm.builtin.ensure_zero_offset" [Any] Tail::Fixed => Tensor in Leaf,
        memory::ensure_zero_offset, rules::none, ZeroOffset;
    /// `(x)`: the truth of an integer, boolean or scalar tensor.
    ReadIfCond = "vm.builtin.read_if_cond" [Any] Tail::Fixed => Bool in Leaf,
        check::read_if_cond, rules::none, ReadIfCond;
    /// `(items...)`: a tuple.
    MakeTuple = "vm.builtin.make_tuple" [] Tail::Variadic => Tuple in Leaf,
        value::make_tuple, rules::none, RecycleTuple;
    /// `(tuple, index)`: one item.
    TupleGetItem = "vm.builtin.tuple_getitem" [Any, Int] Tail::Fixed => Any in Leaf,
        value::tuple_getitem, rules::none, TupleItem;
    /// `(tuple, index)`: lets a tuple that nobody else holds drop an item.
    TupleResetItem = "vm.builtin.tuple_reset_item" [Any, Int] Tail::Fixed => None in MayReenter,
        value::tuple_reset_item, rules::none, Call;
    /// `(closure, captured...)`: a closure that appends the captured values.
    MakeClosure = "vm.builtin.make_closure" [Func] Tail::Variadic => Any in Leaf,
        value::make_closure, rules::none, RecycleClosure;
    /// `(vm, closure, args...)`: a call through a value.
    InvokeClosure = "vm.builtin.invoke_closure" [Vm, Func] Tail::Variadic => Any in MayReenter,
        value::invoke_closure, rules::none, Call;
    /// `(function, tensors..., shape)`: a call with the extents as further arguments.
    CallTirDyn = "vm.builtin.call_tir_dyn" [Func, Any] Tail::Variadic => Any in MayReenter,
        value::call_tir_dyn, rules::none, Call;
    /// `(name, function)`: registers what `call_py_func` calls, in place of what was there.
    RegisterPyFunc = "vm.builtin.register_py_func" [Text, Func] Tail::Fixed => None in MayReenter,
        registry::register_py_func, rules::none, Call;
    /// `(name)`: a function that was registered so.
    GetPyFunc = "vm.builtin.get_py_func" [Text] Tail::Fixed => Any in Leaf,
        registry::get_py_func, rules::none, Call;
    /// `()`: forgets all of them.
    ClearPyFuncRegistry = "vm.builtin.clear_py_func_registry" [] Tail::Fixed => None in MayReenter,
        registry::clear_py_func_registry, rules::none, Call;
    /// `((name, (args...)))`: calls one of them.
    CallPyFunc = "vm.builtin.call_py_func" [] Tail::Variadic => Any in MayReenter,
        registry::call_py_func, rules::none, Call;
    /// `(none, name, line, args...)`: calls a global function on all from the line on.
    InvokeDebugFunc = "vm.builtin.invoke_debug_func" [] Tail::Variadic => None in MayReenter,
        registry::invoke_debug_func, rules::none, Call;
    /// `()`: result_kind memory that is kept for reuse back to the system.
    ClearMemory = "vm.builtin.memory_manager.clear" [] Tail::Fixed => None in Leaf,
        registry::clear_memory, rules::none, Call;
}

impl Builtin {
    /// The builtin called `name`.
    pub fn from_name(name: &str) -> Option<Builtin> {
        if !name.starts_with("vm.builtin.") {
            return None;
        }
        Builtin::ALL.iter().copied().find(|builtin| builtin.name() == name)
    }

    /// The builtin as a function value. It believes its VM argument, which it never
    /// dereferences unless that VM runs on the calling thread.
    pub fn function(self) -> Function {
        Function::new(move |args| {
            let vm = args.first().and_then(|arg| arg.as_opaque());
            (self.run())(Context { vm: vm.unwrap_or(std::ptr::null_mut()) }, args)
        })
    }

    /// What the verifier knows to be wrong with a call.
    pub(crate) fn check(self, call: &Call<'_>) -> Result<(), String> {
        rules::signature(self, call)?;
        (self.rule())(call)
    }
}

/// For a function that is part of TVM's VM and not of this one: the group it is in.
pub fn missing_group(name: &str) -> Option<&'static str> {
    const GROUPS: &[(&str, &str)] = &[
        ("vm.builtin.kv_", "KV-cache builtins"),
        ("vm.builtin.attention_kv_cache", "KV-cache builtins"),
        ("vm.builtin.paged_attention", "KV-cache builtins"),
        ("vm.builtin.rnn_state", "RNN-state builtins"),
        ("vm.builtin.sample_", "sampling builtins"),
        ("vm.builtin.multinomial", "sampling builtins"),
        ("vm.builtin.apply_", "sampling builtins"),
        ("vm.builtin.tensor_cache", "tensor-cache builtins"),
        ("vm.builtin.param_", "tensor-cache builtins"),
        ("vm.builtin.cuda_graph", "CUDA-graph builtins"),
        ("vm.builtin.hexagon", "Hexagon builtins"),
        ("vm.builtin.", "builtins that exist in TVM only"),
        ("runtime.disco", "disco functions"),
        ("relax.run.", "Relax run-time helpers"),
    ];
    GROUPS.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, group)| *group)
}

/// An argument as an integer, for builtins.
fn int(name: &str, args: &[AnyView<'_>], index: usize) -> Result<i64, Error> {
    match args.get(index) {
        Some(arg) => arg.as_int().ok_or_else(|| in_call(name, index, arg.mismatch("int"))),
        None => Err(arity(name, args.len(), index + 1)),
    }
}

#[cold]
fn in_call(name: &str, index: usize, error: Error) -> Error {
    Error::new(&error.kind(), format!("`{name}`, argument {index}: {}", error.message()))
}

#[cold]
fn arity(name: &str, given: usize, expected: usize) -> Error {
    Error::type_error(format!(
        "mismatched number of arguments when calling `{name}`: at least {expected} expected, \
         {given} given"
    ))
}

fn exactly(name: &str, args: &[AnyView<'_>], expected: usize) -> Result<(), Error> {
    if args.len() == expected {
        return Ok(());
    }
    Err(Error::type_error(format!(
        "mismatched number of arguments when calling `{name}`: {expected} expected, {} given",
        args.len()
    )))
}
