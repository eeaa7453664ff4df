//! The `vm.builtin.*` functions: one table, and what each row needs.
//!
//! A row has a name, a signature (for the verifier), the code the interpreter runs and
//! an extra verifier rule. The enum that the table makes is what machine-code tiers
//! match on, without a default arm, so a new row does not compile until every tier
//! handles it. Error kinds and meanings are TVM's.
//!
//! What is not here: the KV-cache, sampling, tensor-cache, Python and disco groups.
//! A program that needs one is refused at load, by name, unless the host registered a
//! global function of that name.

mod check;
mod memory;
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

macro_rules! builtins {
    ($($(#[$doc:meta])* $id:ident = $name:literal [$($param:ident),*] $tail:expr, $run:path, $rule:path;)*) => {
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

            /// Its code.
            pub const fn run(self) -> Run {
                match self { $(Builtin::$id => $run),* }
            }

            const fn rule(self) -> Rule {
                match self { $(Builtin::$id => $rule),* }
            }
        }
    };
}

builtins! {
    /// `(vm, size)`: an int64 tensor that holds symbolic extents.
    AllocShapeHeap = "vm.builtin.alloc_shape_heap" [Vm, Int] Tail::Fixed, shape::alloc_shape_heap, rules::none;
    /// `(x, heap, n, (code, reg) * n, context)`: checks and binds the extents of `x`.
    MatchShape = "vm.builtin.match_shape" [Any, Heap, Int] Tail::Variadic, shape::match_shape, rules::match_shape;
    /// `(value, heap, code, reg, context)`: checks or binds one integer.
    MatchPrimValue = "vm.builtin.match_prim_value" [Any, Heap, Int, Int, Text] Tail::Fixed, shape::match_prim_value, rules::match_prim_value;
    /// `(heap, n, (code, reg) * n)`: a shape of constants and heap entries.
    MakeShape = "vm.builtin.make_shape" [Heap, Int] Tail::Variadic, shape::make_shape, rules::make_shape;
    /// `(heap, code, reg)`: one integer from a constant or the heap.
    MakePrimValue = "vm.builtin.make_prim_value" [Heap, Int, Int] Tail::Fixed, shape::make_prim_value, rules::make_prim_value;
    /// `(x, ndim, dtype?, context)`: `x` is a tensor of this rank (-1: any) and type.
    CheckTensorInfo = "vm.builtin.check_tensor_info" [Any, Int, Any] Tail::Variadic, check::check_tensor_info, rules::check_tensor_info;
    /// `(x, ndim, context)`: `x` is a shape of this rank (-1: any).
    CheckShapeInfo = "vm.builtin.check_shape_info" [Any, Int, Text] Tail::Fixed, check::check_shape_info, rules::none;
    /// `(x, dtype, context)`: `x` is a scalar that converts to this type.
    CheckPrimValueInfo = "vm.builtin.check_prim_value_info" [Any, DType, Text] Tail::Fixed, check::check_prim_value_info, rules::none;
    /// `(x, context)`: `x` is a string.
    CheckStringInfo = "vm.builtin.check_string_info" [Any, Text] Tail::Fixed, check::check_string_info, rules::none;
    /// `(x, n, context)`: `x` is a tuple of `n` items.
    CheckTupleInfo = "vm.builtin.check_tuple_info" [Any, Int, Text] Tail::Fixed, check::check_tuple_info, rules::none;
    /// `(x, context)`: `x` is a function or closure.
    CheckFuncInfo = "vm.builtin.check_func_info" [Any, Text] Tail::Fixed, check::check_func_info, rules::none;
    /// `(vm, shape, device, dtype, scope)`: memory for tensors.
    AllocStorage = "vm.builtin.alloc_storage" [Vm, Shape, Int, DType, Text] Tail::Optional(1), memory::alloc_storage, rules::none;
    /// `(storage, offset, shape, dtype, scope?)`: a tensor in a storage.
    AllocTensor = "vm.builtin.alloc_tensor" [Any, Int, Shape, DType, Text] Tail::Optional(1), memory::alloc_tensor, rules::none;
    /// `()`: None; written over a register to release what it held.
    NullValue = "vm.builtin.null_value" [] Tail::Fixed, value::null_value, rules::none;
    /// `(x)`: `x`.
    Copy = "vm.builtin.copy" [Any] Tail::Fixed, value::copy, rules::none;
    /// `(tensor, shape)`: the same data under another shape.
    Reshape = "vm.builtin.reshape" [Any, Shape] Tail::Fixed, memory::reshape, rules::none;
    /// `(tensor)`: its shape.
    ShapeOf = "vm.builtin.shape_of" [Any] Tail::Fixed, shape::shape_of, rules::none;
    /// `(tensor)`: the shape that the elements of a vector spell.
    TensorToShape = "vm.builtin.tensor_to_shape" [Any] Tail::Fixed, shape::tensor_to_shape, rules::none;
    /// `(tensor, device type, device id, scope?)`: a copy on a device.
    ToDevice = "vm.builtin.to_device" [Any, Int, Int, Text] Tail::Optional(1), memory::to_device, rules::none;
    /// `(tensor)`: the tensor with a byte offset of zero.
    EnsureZeroOffset = "vm.builtin.ensure_zero_offset" [Any] Tail::Fixed, memory::ensure_zero_offset, rules::none;
    /// `(x)`: the truth of an integer, boolean or scalar tensor.
    ReadIfCond = "vm.builtin.read_if_cond" [Any] Tail::Fixed, check::read_if_cond, rules::none;
    /// `(items...)`: a tuple.
    MakeTuple = "vm.builtin.make_tuple" [] Tail::Variadic, value::make_tuple, rules::none;
    /// `(tuple, index)`: one item.
    TupleGetItem = "vm.builtin.tuple_getitem" [Any, Int] Tail::Fixed, value::tuple_getitem, rules::none;
    /// `(tuple, index)`: lets a tuple that nobody else holds drop an item.
    TupleResetItem = "vm.builtin.tuple_reset_item" [Any, Int] Tail::Fixed, value::tuple_reset_item, rules::none;
    /// `(closure, captured...)`: a closure that appends the captured values.
    MakeClosure = "vm.builtin.make_closure" [Func] Tail::Variadic, value::make_closure, rules::none;
    /// `(vm, closure, args...)`: a call through a value.
    InvokeClosure = "vm.builtin.invoke_closure" [Vm, Func] Tail::Variadic, value::invoke_closure, rules::none;
    /// `(function, tensors..., shape)`: a call with the extents as further arguments.
    CallTirDyn = "vm.builtin.call_tir_dyn" [Func, Any] Tail::Variadic, value::call_tir_dyn, rules::none;
}

impl Builtin {
    /// The builtin called `name`.
    pub fn from_name(name: &str) -> Option<Builtin> {
        if !name.starts_with("vm.builtin.") {
            return None;
        }
        Builtin::ALL.iter().copied().find(|builtin| builtin.name() == name)
    }

    /// Whether every result is a new object that tiers may make of an old one.
    pub fn allocates(self) -> bool {
        matches!(
            self,
            Builtin::AllocStorage
                | Builtin::AllocTensor
                | Builtin::AllocShapeHeap
                | Builtin::MakeShape
        )
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
