//! The `vm.builtin.*` and `relay.*` functions: one table of facts, and the modules with their code.
//!
//! A row has a name, a signature (for the verifier), the kind of its results, whether it may
//! re-enter the session, the code the interpreter runs, an extra verifier rule, and its lowering:
//! how tiers translate it, which they match on without a default arm. Error kinds and meanings
//! are TVM's.
//!
//! This file holds the facts alone, so that the decoder, the verifier and the tiers read them
//! without the code; `code.rs` makes the rows callable.
//!
//! Not in this module: attention caches, sampling and the tensor cache, which are packed functions of
//! `contrib` in the runtime; the paged KV cache, RNN state and disco groups.
//! A program that needs one is refused at load, by name, unless the host registered a
//! global function of that name.
//!
//! Decision: docs/decisions/0009-inlined-builtins.md

mod args;
mod check;
mod closure;
mod code;
mod cuda_graph;
mod graph_cache;
mod memory;
mod registry;
mod relay;
mod shape;
mod shape_codes;
mod signature;
mod value;

pub use args::{Context, Run};
pub use check::condition;
pub use closure::Closure;
pub use graph_cache::GraphCache;
pub use shape_codes::{make_code, match_code};
pub use signature::{Call, Param, Rest, Signature};

/// The kind of every result of a builtin.
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

/// The lowering of a builtin to machine code. Tiers match on it without a default arm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lowering {
    /// Inline: a comparison of a tensor's rank and element type.
    CheckTensor,
    /// Inline: a comparison of a shape's rank.
    CheckShape,
    /// Inline: a comparison of a tuple's length.
    CheckTuple,
    /// Inline: comparisons and stores of dimensions.
    MatchShape,
    /// Inline: a comparison or store of an integer.
    MatchPrimValue,
    /// Inline: a constant or a load.
    MakePrimValue,
    /// Inline: a load of the truth.
    ReadIfCond,
    /// Inline: a load of an item.
    TupleItem,
    /// Inline: a comparison of a tuple's first item with a constant.
    TagTest,
    /// Inline: a comparison of scalars.
    EqualScalars,
    /// Inline: comparisons of a value's type.
    CheckType,
    /// Inline where nothing is to be copied: a second reference.
    ZeroOffset,
    /// No code.
    Elided,
    /// A call, unless the operation's recycle slot holds a free storage.
    RecycleStorage,
    /// A call, unless the operation's recycle slot holds a free tensor.
    RecycleTensor,
    /// A call, unless the operation's recycle slot holds a free shape heap.
    RecycleHeap,
    /// A call, unless the operation's recycle slot holds a free shape.
    RecycleShape,
    /// A call, unless the operation's recycle slot holds a free tuple.
    RecycleTuple,
    /// A call, unless the operation's recycle slot holds a free closure.
    RecycleClosure,
    /// A call, unless the operation's recycle slot holds a free view and a view is possible.
    RecycleView,
    /// A call: its cost is small compared with what the builtin does, or it is rare.
    Call,
}

impl Lowering {
    /// Returns true if every result is a new object that may be built in a recycled one.
    pub const fn recycles(self) -> bool {
        use Lowering::{
            RecycleClosure, RecycleHeap, RecycleShape, RecycleStorage, RecycleTensor, RecycleTuple,
        };
        let memory = matches!(self, RecycleStorage | RecycleTensor | RecycleHeap | RecycleShape);
        memory || matches!(self, RecycleTuple | RecycleClosure | Lowering::RecycleView)
    }

    /// Returns true if it only reads its first argument and constants, and its one effect is to
    /// fail.
    pub const fn is_check(self) -> bool {
        use Lowering::{CheckShape, CheckTensor, CheckTuple, CheckType, MatchShape};
        matches!(self, CheckTensor | CheckShape | CheckTuple | CheckType | MatchShape)
    }

    /// Number of leading arguments whose type the inline form relies on.
    pub const fn typed_args(self) -> usize {
        match self {
            Lowering::MatchShape | Lowering::MatchPrimValue | Lowering::EqualScalars => 2,
            Lowering::CheckTensor
            | Lowering::CheckShape
            | Lowering::CheckTuple
            | Lowering::MakePrimValue
            | Lowering::ReadIfCond
            | Lowering::TupleItem
            | Lowering::TagTest
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

macro_rules! for_each_builtin {
    ($apply:ident) => {
        // Name, parameters, rest => kind of result, re-entrancy; code, verifier rule, lowering.
        $apply! {
            /// `(vm, size)`: an int64 tensor that holds symbolic dimensions.
            AllocShapeHeap = "vm.builtin.alloc_shape_heap" [Vm, Int] Rest::Fixed => Tensor in Leaf,
                shape.alloc_shape_heap, signature::none, RecycleHeap;
            /// `(x, heap, n, (code, reg) * n, context)`: checks and binds the dimensions of `x`.
            MatchShape = "vm.builtin.match_shape" [Any, Heap, Int] Rest::Variadic => None in Leaf,
                shape.match_shape, signature::match_shape, MatchShape;
            /// `(value, heap, code, reg, context)`: checks or binds one integer.
            MatchPrimValue = "vm.builtin.match_prim_value" [Any, Heap, Int, Int, Text] Rest::Fixed => None in Leaf,
                shape.match_prim_value, signature::match_prim_value, MatchPrimValue;
            /// `(heap, n, (code, reg) * n)`: a shape of constants and heap entries.
            MakeShape = "vm.builtin.make_shape" [Heap, Int] Rest::Variadic => Shape in Leaf,
                shape.make_shape, signature::make_shape, RecycleShape;
            /// `(heap, code, reg)`: one integer from a constant or the heap.
            MakePrimValue = "vm.builtin.make_prim_value" [Heap, Int, Int] Rest::Fixed => Int in Leaf,
                shape.make_prim_value, signature::make_prim_value, MakePrimValue;
            /// `(x, ndim, dtype?, context)`: `x` is a tensor of this rank (-1: any) and type.
            CheckTensorInfo = "vm.builtin.check_tensor_info" [Any, Int, Any] Rest::Variadic => None in Leaf,
                check.check_tensor_info, signature::check_tensor_info, CheckTensor;
            /// `(x, ndim, context)`: `x` is a shape of this rank (-1: any).
            CheckShapeInfo = "vm.builtin.check_shape_info" [Any, Int, Text] Rest::Fixed => None in Leaf,
                check.check_shape_info, signature::none, CheckShape;
            /// `(x, dtype, context)`: `x` is a scalar that converts to this type.
            CheckPrimValueInfo = "vm.builtin.check_prim_value_info" [Any, DType, Text] Rest::Fixed => None in Leaf,
                check.check_prim_value_info, signature::none, CheckType;
            /// `(x, context)`: `x` is a string.
            CheckStringInfo = "vm.builtin.check_string_info" [Any, Text] Rest::Fixed => None in Leaf,
                check.check_string_info, signature::none, CheckType;
            /// `(x, n, context)`: `x` is a tuple of `n` items.
            CheckTupleInfo = "vm.builtin.check_tuple_info" [Any, Int, Text] Rest::Fixed => None in Leaf,
                check.check_tuple_info, signature::none, CheckTuple;
            /// `(x, context)`: `x` is a function or closure.
            CheckFuncInfo = "vm.builtin.check_func_info" [Any, Text] Rest::Fixed => None in Leaf,
                check.check_func_info, signature::none, CheckType;
            /// `(vm, shape, device, dtype, scope)`: memory for tensors.
            AllocStorage = "vm.builtin.alloc_storage" [Vm, Shape, Int, DType, Text] Rest::Optional(1) => Any in Leaf,
                memory.alloc_storage, signature::none, RecycleStorage;
            /// `(storage, offset, shape, dtype, scope?)`: a tensor in a storage.
            AllocTensor = "vm.builtin.alloc_tensor" [Any, Int, Shape, DType, Text] Rest::Optional(1) => Tensor in Leaf,
                memory.alloc_tensor, signature::none, RecycleTensor;
            /// `()`: None; written over a register to release what it held.
            NullValue = "vm.builtin.null_value" [] Rest::Fixed => None in Leaf,
                value.null_value, signature::none, Elided;
            /// `(x)`: `x`.
            Copy = "vm.builtin.copy" [Any] Rest::Fixed => Any in Leaf,
                value.copy, signature::none, Call;
            /// `(tensor, shape)`: the same data under another shape.
            Reshape = "vm.builtin.reshape" [Any, Shape] Rest::Fixed => Tensor in Leaf,
                memory.reshape, signature::none, RecycleView;
            /// `(tensor)`: its shape.
            ShapeOf = "vm.builtin.shape_of" [Any] Rest::Fixed => Shape in Leaf,
                shape.shape_of, signature::none, RecycleShape;
            /// `(tensor)`: a shape whose dimensions are the elements of a vector.
            TensorToShape = "vm.builtin.tensor_to_shape" [Any] Rest::Fixed => Shape in Leaf,
                shape.tensor_to_shape, signature::none, Call;
            /// `(tensor, device type, device id, scope?)`: a copy on a device.
            ToDevice = "vm.builtin.to_device" [Any, Int, Int, Text] Rest::Optional(1) => Tensor in Leaf,
                memory.to_device, signature::none, Call;
            /// `(tensor)`: the tensor with a byte offset of zero.
            EnsureZeroOffset = "vm.builtin.ensure_zero_offset" [Any] Rest::Fixed => Tensor in Leaf,
                memory.ensure_zero_offset, signature::none, ZeroOffset;
            /// `(x)`: the truth of an integer, boolean or scalar tensor.
            ReadIfCond = "vm.builtin.read_if_cond" [Any] Rest::Fixed => Bool in Leaf,
                check.read_if_cond, signature::none, ReadIfCond;
            /// `(items...)`: a tuple.
            MakeTuple = "vm.builtin.make_tuple" [] Rest::Variadic => Tuple in Leaf,
                value.make_tuple, signature::none, RecycleTuple;
            /// `(tuple, index)`: one item.
            TupleGetItem = "vm.builtin.tuple_getitem" [Any, Int] Rest::Fixed => Any in Leaf,
                value.tuple_getitem, signature::none, TupleItem;
            /// `(tuple, index)`: drops an item of a tuple that has no other reference.
            TupleResetItem = "vm.builtin.tuple_reset_item" [Any, Int] Rest::Fixed => None in MayReenter,
                value.tuple_reset_item, signature::none, Call;
            /// `(closure, captured...)`: a closure that appends the captured values.
            MakeClosure = "vm.builtin.make_closure" [Func] Rest::Variadic => Any in Leaf,
                value.make_closure, signature::none, RecycleClosure;
            /// `(vm, closure, args...)`: a call through a value.
            InvokeClosure = "vm.builtin.invoke_closure" [Vm, Func] Rest::Variadic => Any in MayReenter,
                value.invoke_closure, signature::none, Call;
            /// `(function, tensors..., shape)`: a call with the dimensions as further arguments.
            CallTirDyn = "vm.builtin.call_tir_dyn" [Func, Any] Rest::Variadic => Any in MayReenter,
                value.call_tir_dyn, signature::none, Call;
            /// `(name, function)`: registers what `call_py_func` calls, replacing what was registered under the name.
            RegisterPyFunc = "vm.builtin.register_py_func" [Text, Func] Rest::Fixed => None in MayReenter,
                registry.register_py_func, signature::none, Call;
            /// `(name)`: a function registered by `register_py_func`.
            GetPyFunc = "vm.builtin.get_py_func" [Text] Rest::Fixed => Any in Leaf,
                registry.get_py_func, signature::none, Call;
            /// `()`: removes all of them.
            ClearPyFuncRegistry = "vm.builtin.clear_py_func_registry" [] Rest::Fixed => None in MayReenter,
                registry.clear_py_func_registry, signature::none, Call;
            /// `((name, (args...)))`: calls one of them, or a global function.
            CallPyFunc = "vm.builtin.call_py_func" [] Rest::Variadic => Any in MayReenter,
                registry.call_py_func, signature::none, Call;
            /// `(none, name, line, args...)`: calls a global function on all from the line on.
            InvokeDebugFunc = "vm.builtin.invoke_debug_func" [] Rest::Variadic => None in MayReenter,
                registry.invoke_debug_func, signature::none, Call;
            /// `()`: returns memory that is kept for reuse to the system.
            ClearMemory = "vm.builtin.memory_manager.clear" [] Rest::Fixed => None in Leaf,
                registry.clear_memory, signature::none, Call;
            /// `(vm, function, index)`: the result of the function, which is called once for each index.
            GetCachedAlloc = "vm.builtin.cuda_graph.get_cached_alloc" [Vm, Func, Int] Rest::Fixed => Any in MayReenter,
                cuda_graph.get_cached_alloc, signature::none, Call;
            /// `(vm, function, (args...), index, shape?)`: calls the function with the arguments that the first
            /// call for this index and shape had.
            RunOrCapture = "vm.builtin.cuda_graph.run_or_capture" [Vm, Func, Any, Int, Shape] Rest::Optional(1) => Any in MayReenter,
                cuda_graph.run_or_capture, signature::none, Call;
            /// `(a, b)`: whether two integers or scalar tensors agree in their low 32 bits.
            RelayEqual = "relay.equal" [Any, Any] Rest::Fixed => Bool in Leaf,
                relay.equal, signature::none, EqualScalars;
            /// `(value, tag)`: whether a data type's value, a tuple that begins with a tag, has this one.
            RelayIs = "relay.is" [Any, Int] Rest::Fixed => Bool in Leaf,
                relay.is, signature::none, TagTest;
            /// `(value, bits)`: an integer tensor of shape `[1]`.
            RelayInt = "relay.int" [Int, Int] Rest::Fixed => Tensor in Leaf,
                relay.integer, signature::none, Call;
            /// `(x)`: an integer from a scalar tensor.
            RelayScalar = "relay.scalar" [Any] Rest::Fixed => Int in Leaf,
                relay.scalar, signature::none, Call;
            /// `(function, outputs, args...)`: a call with the fields of data types' values in their place; none if
            /// the only output is empty.
            RelayCall = "relay.call" [Func, Int] Rest::Variadic => Any in MayReenter,
                relay.call, signature::none, Call;
            /// `(tensor)`: its shape, as an int64 vector.
            RelayShape = "relay.shape" [Any] Rest::Fixed => Tensor in Leaf,
                relay.shape, signature::none, Call;
            /// `(place?)`: an error.
            RelayFatal = "relay.fatal" [Text] Rest::Optional(1) => None in Leaf,
                relay.fatal, signature::none, Call;
        }
    };
}

pub(crate) use for_each_builtin;

macro_rules! facts {
    ($(
        $(#[$doc:meta])*
        $id:ident = $name:literal [$($param:ident),*] $rest:expr => $result:ident in $reentrancy:ident,
        $module:ident.$run:ident, $rule:path, $lowering:ident;
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

            /// Its parameters.
            pub const fn signature(self) -> Signature {
                match self {
                    $(Builtin::$id => Signature { params: &[$(Param::$param),*], rest: $rest }),*
                }
            }

            /// The kind of every result.
            pub const fn result_kind(self) -> ResultKind {
                match self { $(Builtin::$id => ResultKind::$result),* }
            }

            /// Whether it may run code that calls back into the session.
            pub const fn reentrancy(self) -> Reentrancy {
                match self { $(Builtin::$id => Reentrancy::$reentrancy),* }
            }

            const fn rule(self) -> signature::Rule {
                match self { $(Builtin::$id => $rule),* }
            }

            /// Its lowering to machine code.
            pub const fn lowering(self) -> Lowering {
                match self { $(Builtin::$id => Lowering::$lowering),* }
            }
        }
    };
}

for_each_builtin!(facts);

impl Builtin {
    /// The builtin called `name`.
    pub fn from_name(name: &str) -> Option<Builtin> {
        if !name.starts_with("vm.builtin.") && !name.starts_with("relay.") {
            return None;
        }
        Builtin::ALL.iter().copied().find(|builtin| builtin.name() == name)
    }

    /// Checks a call as far as it is known before running; says what is wrong with it.
    pub(crate) fn check(self, call: &Call<'_>) -> Result<(), String> {
        signature::check(self.name(), self.signature(), call)?;
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
