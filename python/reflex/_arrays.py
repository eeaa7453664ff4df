"""Arrays in and out: what NumPy takes becomes tensors, and tensors are NumPy arrays in place."""
from __future__ import annotations

import ctypes
import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import tvm_ffi

from ._library import LIBRARY, NotATensor

#: What a call takes for a tensor: any array with DLPack, and whatever `numpy.asarray` takes.
ArrayLike = Any

# The argument that was not given.
_MISSING = object()


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a function.

    >>> x_info = program.inputs[0]
    >>> x_info.name, x_info.dtype, x_info.shape, x_info.is_tensor, str(x_info)
    ('x', 'float32', ('n', 8), True, 'x: float32[n, 8]')
    """

    #: The model's name for it.
    name: str
    #: The element type, as `numpy.dtype` takes it; `None` if the program does not say.
    dtype: str | None
    #: The dimensions; a name or an expression stands for one that each call chooses.
    shape: tuple[int | str, ...]
    #: Whether it is a tensor; of other values the program knows the name alone.
    is_tensor: bool = True

    def __str__(self) -> str:
        if not self.is_tensor:
            return f"{self.name}: value"
        return f"{self.name}: {self.dtype or '?'}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a function, in the order of calls.

    >>> [info.name for info in program.signature("main").inputs]
    ['x', 'w']
    """

    #: Inputs.
    inputs: tuple[TensorInfo, ...]
    #: Outputs, those of tuples one after another; empty if the program does not describe them.
    outputs: tuple[TensorInfo, ...]


class Function(Protocol):
    """A function of a program, or a saved one: `session["main"]`."""

    #: What is behind it, which takes tensors and writable, contiguous arrays by position and converts
    #: nothing: a call costs a Python frame less.
    packed: Callable[..., Any]

    def __call__(self, *args: ArrayLike, **named: ArrayLike) -> Any: ...


class _AsNumPy:
    """What `Tensor` adds to tvm-ffi's tensors."""

    __slots__ = ()

    def numpy(self) -> np.ndarray:
        """Returns a NumPy array over the same memory. Element types that NumPy lacks, such as bfloat16,
        are those of the package ml_dtypes.

        >>> session["main"](x, w).numpy().shape
        (2, 5)
        """
        name = str(self.dtype)  # type: ignore[attr-defined]
        if not _is_foreign(name):
            return np.from_dlpack(self)  # type: ignore[arg-type]
        import ml_dtypes

        dtype = np.dtype(getattr(ml_dtypes, name))
        bits = LIBRARY["reinterpret"](self, f"uint{8 * dtype.itemsize}")
        return np.from_dlpack(bits).view(dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"{array.dtype} cannot become {np.dtype(dtype)} without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array


if TYPE_CHECKING:

    class Tensor(_AsNumPy, tvm_ffi.Tensor):
        """A tensor that a program returned."""


def use_tensor_class() -> type:
    """Makes tvm-ffi return tensors with `numpy` and `__array__`, and returns their class. Another
    package's class, such as TVM's, is kept as the base."""
    current = tvm_ffi.core._CLASS_TENSOR
    if issubclass(current, _AsNumPy):
        return current
    members = {"__slots__": (), "__module__": "reflex", "__doc__": _TENSOR_DOC}
    made = type("Tensor", (current, _AsNumPy), members)
    tvm_ffi.core._set_class_tensor(made)
    return made


_TENSOR_DOC = """A tensor that a program returned: a `tvm_ffi.Tensor` that is a NumPy array too.

    `y.numpy()` and `numpy.asarray(y)` are the same memory, which lives as long as either.

    >>> y = session["main"](x, w)
    >>> np.asarray(y).shape
    (2, 5)
    """

if not TYPE_CHECKING:
    Tensor = use_tensor_class()


def _is_foreign(dtype: str) -> bool:
    """Whether NumPy needs ml_dtypes for an element type."""
    return dtype.startswith(("bfloat", "float8", "float4", "int4", "uint4", "int2", "uint2"))


def as_argument(value: ArrayLike, info: TensorInfo | None) -> Any:
    """Returns what to pass for a value: the value itself where it can be passed as it is.

    Read-only arrays, those of foreign byte order and of types that only ml_dtypes has are copied.
    Numbers and sequences take the element type of the input; other objects have one. Where a program does
    not say the type, as executables of the Relay virtual machine, a tuple is a tuple. Values for what is no tensor
    are passed as they are.
    """
    if isinstance(value, np.ndarray):
        return _exportable(value, info)
    foreign = (tvm_ffi.core.CObject, tvm_ffi.core.PyNativeObject)
    if info is None or not info.is_tensor or isinstance(value, foreign) or hasattr(type(value), "__dlpack__"):
        return value
    if info.dtype is None and isinstance(value, tuple):
        return value
    array = np.asarray(value)
    weak = isinstance(value, (bool, int, float, list, tuple)) and not isinstance(value, np.generic)
    if weak and info.dtype is not None and not _is_foreign(info.dtype) and array.dtype != info.dtype:
        if array.size > 0 and not np.can_cast(array.dtype, info.dtype, "same_kind"):
            raise TypeError(f"input {info}: got {array.dtype}{list(array.shape)}")
        array = np.asarray(value, dtype=info.dtype)
    return _exportable(array, info)


def _exportable(array: np.ndarray, info: TensorInfo | None) -> Any:
    """Returns the array, or a copy if DLPack cannot describe it."""
    kind, dtype = array.dtype.kind, array.dtype
    if kind == "V" and _is_foreign(dtype.name):
        bits = tvm_ffi.from_dlpack(np.array(array, order="C").view(f"u{dtype.itemsize}"))
        return LIBRARY["reinterpret"](bits, dtype.name)
    if kind not in "biuf":
        raise TypeError(f"input {info or ''}: NumPy's {dtype} is no element type of tensors")
    whole = all(stride % dtype.itemsize == 0 for stride in array.strides)
    if array.flags.writeable and dtype.isnative and whole:
        return array
    return np.array(array, dtype=dtype.newbyteorder("="), order="C")


def by_position(
    function: str, inputs: Sequence[TensorInfo], args: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Puts named arguments in their places; the others are the first ones."""
    names = [info.name for info in inputs]
    unknown = [name for name in named if name not in names]
    if unknown:
        raise TypeError(f"`{function}` has no input {unknown[0]!r}; it has {', '.join(names)}")
    twice = [name for name in names[: len(args)] if name in named]
    if twice:
        raise TypeError(f"`{function}` got two values for its input {twice[0]!r}")
    missing = [name for name in names[len(args) :] if name not in named]
    if missing:
        raise TypeError(f"`{function}` got no value for its input {missing[0]!r}")
    return (*args, *(named[name] for name in names[len(args) :]))


def converted(
    error: Exception, inputs: Sequence[TensorInfo], args: Sequence[Any]
) -> list[Any]:
    """Returns arguments that can be passed, after `error` refused `args` before anything ran; raises
    `error` again if it was not about them."""
    infos = [*inputs, *[None] * len(args)]
    given = [as_argument(value, info) for value, info in zip(args, infos)]
    if all(new is old for new, old in zip(given, args)):
        raise error
    return given


def passing(
    call: Callable[..., Any], inputs: Callable[[], Sequence[TensorInfo]], args: Sequence[Any]
) -> Any:
    """Calls with arguments, which are converted where they must be."""
    try:
        return call(*args)
    except (BufferError, NotATensor) as error:
        refusal = error
    return call(*converted(refusal, inputs(), args))


_EXPLICIT = """
def bound({parameters}, *_rest):
    if _rest:
        return _call({names}, *_rest)
    try:
        return _call({names})
    except (BufferError, _NotATensor) as _error:
        _refusal = _error
    return _retry(_refusal, ({names},))
"""


def bound_function(name: str, call: Callable[..., Any], signature: Signature) -> Function:
    """Returns a function with the program's own parameters, whose calls with arrays cost one Python
    frame more than those of `call`."""
    inputs = signature.inputs
    names = [info.name for info in inputs]

    def retry(error: Exception, args: tuple[Any, ...]) -> Any:
        given = [name for name, value in zip(names, args) if value is not _MISSING]
        if len(given) == len(names) or len(args) != len(names):
            return call(*converted(error, inputs, args))
        if given != names[: len(given)]:
            args = by_position(name, inputs, (), dict.fromkeys(given))
        return call(*args[: len(given)])

    def general(*args: Any, **named: Any) -> Any:
        if named:
            args = by_position(name, inputs, args, named)
        try:
            return call(*args)
        except (BufferError, NotATensor) as error:
            refusal = error
        return retry(refusal, args)

    bound = cast(Function, general)
    usual = all(n.isidentifier() and not keyword.iskeyword(n) and n[0] != "_" for n in names)
    known = all(info.dtype is not None for info in inputs)
    if inputs and usual and known and len(set(names)) == len(names):
        parameters = ", ".join(f"{name}=_missing" for name in names)
        scope = {"_call": call, "_retry": retry, "_missing": _MISSING, "_NotATensor": NotATensor}
        exec(_EXPLICIT.format(parameters=parameters, names=", ".join(names)), scope)
        bound = cast(Function, scope["bound"])
    outputs = ", ".join(map(str, signature.outputs)) or "its result"
    bound.packed = call
    bound.__name__ = bound.__qualname__ = name  # type: ignore[attr-defined]
    bound.__doc__ = f"({', '.join(map(str, inputs))}) -> {outputs}"
    return bound


# What is passed as it is, if DLPack can describe it.
_ARRAYS = (np.ndarray, tvm_ffi.core.CObject)


def saved_function(call: Callable[..., Any], inputs: Sequence[TensorInfo]) -> Function:
    """Returns a function that calls `call`, whose first arguments are for `inputs`."""

    def saved(*args: Any) -> Any:
        for value in args:
            if not isinstance(value, _ARRAYS):
                infos = [*inputs, *[None] * len(args)]
                args = tuple(as_argument(value, info) for value, info in zip(args, infos))
                break
        return passing(call, lambda: inputs, args)

    function = cast(Function, saved)
    function.packed = call
    return function


def flattened(result: Any) -> list[Any]:
    """Returns the tensors of a result, those of nested tuples one after another."""
    if isinstance(result, tvm_ffi.Array):
        return [tensor for item in result for tensor in flattened(item)]
    return [result]


def with_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with tensors in the place of views: those of a kernel's call have no handle, without which tvm-ffi
    exports none."""

    def called(*args: Any) -> Any:
        return function(*(_tensor_of_view(arg) if isinstance(arg, tvm_ffi.Tensor) else arg for arg in args))

    return called


def _tensor_of_view(tensor: tvm_ffi.Tensor) -> tvm_ffi.Tensor:
    if tensor.__chandle__():
        return tensor
    shape = tuple(tensor.shape)
    try:
        dtype = np.dtype(str(tensor.dtype))
    except TypeError as error:
        raise TypeError(f"NumPy has no {tensor.dtype}, of which a kernel passes a tensor") from error
    size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    if size == 0:
        return tvm_ffi.from_dlpack(np.empty(shape, dtype))
    memory = (ctypes.c_char * size).from_address(tensor.data_ptr())
    return tvm_ffi.from_dlpack(np.frombuffer(memoryview(memory), dtype).reshape(shape))
