"""Runs tensor programs: ONNX models, PyTorch's exported programs, TVMScript, artifacts of `reflex compile`, TVM's executables.

>>> import numpy as np, reflex
>>> program = reflex.load(model)                  # .onnx, .pt2, .py, .json, .relay, .so or .ro
>>> print(*program.inputs, *program.outputs)
x: float32[n, 8] w: float32[8, 5] output0: float32[n, 5]
>>> session = program.session()
>>> y = session["main"](x, w)                     # NumPy arrays, or any with DLPack; or x=x, w=w
>>> y.numpy().shape                               # in place, as np.asarray(y) is
(2, 5)
>>> session.run({"x": x, "w": w})["output0"].shape
(2, 5)

**Arrays.** A call takes every array that NumPy takes. Arrays with DLPack are passed without a copy, if
they are contiguous, writable and of the machine's byte order; others are copied for the call, so that a
program that writes into its arguments writes into the copy. Numbers and (nested) lists become arrays of
the input's element type. `set_input` keeps what was passed: later changes of an array that was not
copied are seen by `invoke_stateful`. Results are `Tensor`: a `tvm_ffi.Tensor` with `numpy()`, which
`numpy.asarray` and `numpy.from_dlpack` read in place.

**Other values.** Models with maps, sequences or optionals as inputs and outputs take dictionaries, lists of arrays
and None, and return `tvm_ffi.Map`, `tvm_ffi.Array` and None.

**Threads.** A program is shared by threads. A session belongs to one thread at a time; other threads may
call `cancel` only. Calls release Python's lock.

**Files.** Needs the packages apache-tvm-ffi and numpy, and libreflex.so, which is looked for in
$REFLEX_LIBRARY, next to this file, and in the build folders of a source tree. `.onnx` and `.py` are
compiled by `reflex-codegen`, which is looked for in $REFLEX_CODEGEN, beside libreflex.so and on the search
path, unless all kernels are in the cache; `.so` need no compiler.

In the examples, `program` is a model whose `main` takes `x` of shape [n, 8] and `w` of shape [8, 5],
`model` is its file, `x` and `w` are arrays, and `session` is a session of it.
"""
from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import tvm_ffi

from . import dpl, ir, op, rpc, schedule
from ._arrays import (
    ArrayLike,
    Function,
    Signature,
    Tensor,
    TensorInfo,
    bound_function,
    by_position,
    converted,
    flattened,
    passing,
    saved_function,
    use_tensor_class,
    with_tensors,
)
from ._closing import Closing
from ._library import LIBRARY as _reflex
from ._library import Cancelled, FuelExhausted, NotATensor
from ._quantize import Deviation, KeptNode, Quantized, QuantizedLayer, quantize
from .dpl import Dispatch
from .exec_builder import ExecBuilder
from .schedule import Schedule, register_tensor_intrin

__all__ = [
    "Cancelled",
    "Deviation",
    "ExecBuilder",
    "FuelExhausted",
    "Function",
    "KeptNode",
    "Program",
    "Quantized",
    "QuantizedLayer",
    "Schedule",
    "Session",
    "Signature",
    "Tensor",
    "TensorInfo",
    "compile",
    "get_global_func",
    "inspect",
    "library_function",
    "list_passes",
    "load",
    "load_module",
    "memory",
    "nodes",
    "quantize",
    "register_global_func",
    "register_tensor_intrin",
    "run_pass",
    "set_memory_limit",
    "target_attributes",
]

#: The version of the library, as in `Cargo.toml`.
__version__: str = str(_reflex["version"]())

_Path = str | os.PathLike[str]
_Bytes = bytes | bytearray | memoryview
#: A function that gives a module as TVMScript.
Script = Callable[[], str]
#: The name of a pipeline with edits, or a function of what is known of the target that gives one.
_Pipeline = str | Callable[[dict[str, Any]], str] | None
#: `(when, pass, script)`: "before" or "after", the name of a pass, and the module.
Instrument = Callable[[str, str, Script], Any]


def load(
    model: _Path | _Bytes,
    device: str = "cpu",
    threads: int = 1,
    kernel_cache: _Path | None = None,
    tier: str | None = None,
    precision: str | None = None,
    optimize_for: str | None = None,
    format: str | None = None,
    kernels: _Path | None = None,
    params: _Path | None = None,
    pipeline: _Pipeline = None,
    passes: Mapping[str, Callable[[str], str] | ir.NodePass] | None = None,
    instrument: Instrument | None = None,
    dispatch: Sequence[Dispatch] | None = None,
    schedules: Iterable[str | Schedule] | None = None,
    target: Any = None,
    dims: Mapping[str, int] | None = None,
) -> Program:
    """Loads a model: `.onnx`, `.pt2`, `.py` and `.relay` are compiled, `.so` and `.ro` are opened (which runs
    machine code of their author's choice). It is a path, or the bytes of a model with their `format`:
    "onnx", "pt2", "py", "relay", "so" or "ro". External data of an ONNX model needs a path.

    `tier` is the tier policy, which says when programs are compiled to machine code: "off", or such as
    "threshold=10,compile=sync,code-cache=1M"; None is that of the variable REFLEX_TIER. `precision` is
    the arithmetic of f32 matmuls and convolutions in a model that is compiled: "f32" (None),
    "f32-fast", "bf16" or "int8". `optimize_for` is its goal: "speed" (None), or "size" for weights of no more bytes
    than the model's. `kernels` is the library of a `.ro` (None is the `.so` of the same name),
    `params` the file of its late-bound constants.

    `pipeline` names the passes of a model that is compiled: "default" (None) or "minimal", and edits such
    as "-simplify,fuse_operators.max_operators=8"; `list_passes` has them. A function chooses by what `target_attributes` says of
    the target. `passes` puts in passes of the caller's: a place such as "after:fold_constants" and a function that takes the module as TVMScript and
    gives one. `instrument` is called with "before" or "after", the name of a pass, and a function that
    gives the module; False before a pass leaves it out. Neither is called after `load` has returned. `dispatch`
    replaces what patterns match by calls, before all passes (`reflex.dpl`). `schedules` has schedules of
    kernels by hand: a `Schedule`, or the text of traces.

    `target` is what the model is compiled for, in place of `device` and `threads`: a target of TVM, or as
    text or a dictionary what TVM makes one of ("llvm -mcpu=haswell -num-cores=2", {"kind": "cuda", "arch":
    "sm_80"}). `dims` makes symbolic dimensions of inputs constants (free dimension overrides): {"batch": 1}.

    >>> reflex.load(model, threads=2, tier="off").functions
    ['main']
    >>> reflex.load(open(model, "rb").read(), format=model.rsplit(".")[-1]).functions
    ['main']
    >>> reflex.load("no/such.onnx")
    Traceback (most recent call last):
        ...
    FileNotFoundError: no/such.onnx: No such file or directory (os error 2)
    """
    data, options, custom = _load_arguments(
        model, device, threads, kernel_cache, tier, precision, optimize_for, format, kernels, params, pipeline,
        passes, instrument, dispatch, schedules, target, dims,
    )
    handle = _reflex["load"](data, *options, *_custom(*custom))
    source = data if isinstance(data, bytes) else os.path.abspath(data)
    return Program(handle, (source, *options, *custom))


def load_module(model: _Path | _Bytes, mode: str = "tiered", **options: Any) -> tvm_ffi.Module:
    """Loads a model or a library of packed functions as a module of tvm-ffi, which TVM's own functions
    take and call. The options are those of `load`.

    The module of a model makes others: `vm_load_executable` one with the functions of TVM's virtual
    machine, and each function of the program one that keeps its inputs and outputs in place. Sessions
    run in `mode`.

    >>> module = reflex.load_module(model)
    >>> vm = module["vm_load_executable"]()          # as tvm.relax.VirtualMachine does
    >>> stateful = module["main"](tvm_ffi.device("cpu", 0))
    >>> stateful["set_input"](0, tvm_ffi.from_dlpack(x))
    >>> stateful["set_input"]("w", tvm_ffi.from_dlpack(w))
    >>> stateful["run"]()
    >>> stateful["get_output"](0).numpy().shape
    (2, 5)
    """
    data, plain, custom = _load_arguments(model, **options)
    module: tvm_ffi.Module = _reflex["load_module"](data, *plain, *_custom(*custom), mode)
    return module


def _load_arguments(
    model: _Path | _Bytes,
    device: str = "cpu",
    threads: int = 1,
    kernel_cache: _Path | None = None,
    tier: str | None = None,
    precision: str | None = None,
    optimize_for: str | None = None,
    format: str | None = None,
    kernels: _Path | None = None,
    params: _Path | None = None,
    pipeline: _Pipeline = None,
    passes: Mapping[str, Callable[[str], str] | ir.NodePass] | None = None,
    instrument: Instrument | None = None,
    dispatch: Sequence[Dispatch] | None = None,
    schedules: Iterable[str | Schedule] | None = None,
    target: Any = None,
    dims: Mapping[str, int] | None = None,
) -> tuple[str | bytes, tuple[Any, ...], tuple[Any, ...]]:
    """A model as the library takes it, the options, and those that are functions of the caller's."""
    use_tensor_class()
    if isinstance(model, (bytes, bytearray, memoryview)):
        if format is None:
            raise TypeError('a model in memory needs its format: "onnx", "pt2", "py", "json", "relay", "so" or "ro"')
        data: str | bytes = bytes(model)
    else:
        data = os.fspath(model)
    beside = (_text(kernels), _text(params))
    options = (device, threads, _text(kernel_cache), tier, precision, optimize_for, format, *beside)
    traces = tuple(item if isinstance(item, str) else item.trace for item in schedules or ())
    named = _chosen(pipeline, device, target)
    bound = ",".join(f"{name}={size}" for name, size in dims.items()) if dims else None
    return data, options, (named, passes, instrument, tuple(dispatch or ()), traces, _target_text(target), bound)


def target_attributes(target: Any) -> dict[str, Any]:
    """Returns what is known of a target: its attributes, and what its kind and its processor bring (`features`, `vector_bytes`,
    `max_threads_per_block`, ...). A function as `pipeline` of `load` gets this.

    >>> reflex.target_attributes("nvidia/nvidia-h100")["max_threads_per_block"]
    1024
    >>> def chosen(target):
    ...     return "fuse_operators.max_operators=8" if target["vector_bytes"] == 32 else "default"
    >>> reflex.compile(script, target="llvm -mcpu=haswell", pipeline=chosen).functions
    ['main']
    """
    known: dict[str, Any] = json.loads(str(_reflex["target_attributes"](_target_text(target))))
    return known


def _chosen(pipeline: _Pipeline, device: str, target: Any) -> str | None:
    """The pipeline for a target."""
    if not callable(pipeline):
        return pipeline
    if target is None and device != "cpu":
        raise ValueError(f"a pipeline that is chosen by the target needs `target` for the device {device!r}")
    return pipeline(target_attributes("llvm" if target is None else target))


def _target_text(target: Any) -> str | None:
    """A target as text: TVM's own give a dictionary."""
    if target is None or isinstance(target, str):
        return target
    return json.dumps(target if isinstance(target, Mapping) else _plain(target.export()))


def _plain(value: Any) -> Any:
    """Containers and texts of tvm-ffi as Python's."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Iterable):
        return [_plain(item) for item in value]
    return value


def _text(path: _Path | None) -> str | None:
    return None if path is None else os.fspath(path)


def _custom(
    pipeline: str | None,
    passes: Mapping[str, Callable[[str], str] | ir.NodePass] | None,
    instrument: Instrument | None,
    dispatch: Sequence[Dispatch] = (),
    schedules: tuple[str, ...] = (),
    target: str | None = None,
    dims: str | None = None,
) -> tuple[Any, ...]:
    """The arguments of the library for a pipeline, passes, dispatches, schedules, a target, dimensions and an instrument."""
    listed: list[Any] = [
        _outside_pass(place, f"pass {at}", run)
        for at, (place, run) in enumerate((passes or {}).items())
    ]
    listed += [each.parts for each in dispatch]
    listed += [("schedule", text, None) for text in schedules]
    listed += [("target", text, None) for text in (target,) if text is not None]
    listed += [("dims", text, None) for text in (dims,) if text is not None]
    return pipeline, listed or None, None if instrument is None else _watcher(instrument)


def _outside_pass(place: str, name: str, run: Callable[[str], str] | ir.NodePass) -> tuple[str, str, Any]:
    if isinstance(run, ir.NodePass):
        return f"nodes {place}", getattr(run, "__name__", name), tvm_ffi.convert(run.packed)
    return place, getattr(run, "__name__", name), tvm_ffi.convert(lambda text: run(str(text)))


def _watcher(instrument: Instrument) -> Any:
    def watch(when: Any, name: Any, script: Callable[[], Any]) -> bool:
        return instrument(str(when), str(name), lambda: str(script())) is not False

    return tvm_ffi.convert(watch)


def compile(model: Any, format: str | None = None, **options: Any) -> Program:
    """Compiles a model in memory: TVMScript as a string, ONNX as bytes, a graph of nodes or a module of
    TVM. The options are those of `load`.

    >>> script = "@I.ir_module\\nclass Module:\\n    @R.function\\n" \\
    ...     "    def main(x: R.Tensor((2,), 'float32')) -> R.Tensor((2,), 'float32'):\\n" \\
    ...     "        return R.multiply(x, R.const(1.0, 'float32'))\\n"
    >>> def squared(text):
    ...     return text.replace("R.multiply(x, R.const(1.0, \\"float32\\"))", "R.multiply(x, x)")
    >>> reflex.compile(script, passes={"before:fold_constants": squared}).functions
    ['main']
    """
    data, kind = _in_memory(model)
    return load(data, format=format or kind, **options)


def _in_memory(model: Any) -> tuple[bytes, str]:
    """The bytes of a model and their format."""
    if isinstance(model, str):
        return model.encode(), "py"
    if isinstance(model, (bytes, bytearray, memoryview)):
        data = bytes(model)
        return data, "pt2" if data.startswith(b"PK\x03\x04") else "onnx"
    if isinstance(model, ir.Graph):
        return model.save_json().encode(), "json"
    if callable(getattr(model, "script", None)):
        return str(model.script(show_meta=True)).encode(), "py"
    raise TypeError(f"a model is TVMScript, the bytes of ONNX or of PyTorch's archive, a graph or a module of TVM, not {type(model)}")


def _model(model: Any) -> tuple[str | bytes, str | None]:
    """A path, or the bytes of a model in memory and their format."""
    is_path = isinstance(model, os.PathLike) or (isinstance(model, str) and "\n" not in model)
    return (os.fspath(model), None) if is_path else _in_memory(model)


def inspect(
    model: Any,
    after: str | None = None,
    pipeline: str | None = None,
    passes: Mapping[str, Callable[[str], str] | ir.NodePass] | None = None,
    instrument: Instrument | None = None,
    dispatch: Sequence[Dispatch] | None = None,
    schedules: Iterable[str | Schedule] | None = None,
    source: str | None = None,
    target: Any = None,
) -> str:
    """Returns the module after a pass as text, its kernels as `source` text in the language c, cuda or opencl,
    or the model as TVMScript. It is a path, or a model in memory as `compile` takes it; text with a line
    break is TVMScript.

    >>> script = "@I.ir_module\\nclass Module:\\n    @R.function\\n" \\
    ...     "    def main(x: R.Tensor((2,), 'float32')) -> R.Tensor((2,), 'float32'):\\n" \\
    ...     "        return R.multiply(x, R.const(1.0, 'float32'))\\n"
    >>> "R.multiply" in reflex.inspect(script), "R.multiply" in reflex.inspect(script, after="simplify")
    (True, False)
    >>> "R.multiply" in reflex.inspect(script, after="eliminate_dead_code", pipeline="-simplify")
    True
    >>> double = script.replace("1.0", "2.0")
    >>> "__global__ void" in reflex.inspect(double, source="cuda")
    True
    >>> "* 2.0f;" in reflex.inspect(double, source="c")
    True
    """
    data, kind = _model(model)
    data, options, custom = _load_arguments(
        data, format=kind, pipeline=pipeline, passes=passes, instrument=instrument,
        dispatch=dispatch, schedules=schedules, target=target,
    )
    return str(_reflex["inspect"](data, *options, *_custom(*custom), after, source))


def nodes(model: Any, after: str | None = None, pipeline: str | None = None) -> ir.Graph:
    """Returns the nodes of a model, as it was imported or after a pass; after a pass of kernels, those of
    the kernels alone. It is a path, or a model in memory as `compile` takes it.

    >>> graph = reflex.nodes(script)
    >>> graph.root.key, [name.name_hint.value for name in graph.root.functions]
    ('ir.IRModule', ['main'])
    >>> legal = reflex.nodes(script, after="fuse_operators")
    >>> reflex.ir.structural_equal(graph, legal), len(legal.root.functions) > 1
    (False, True)
    >>> reflex.compile(graph).functions
    ['main']
    """
    data, kind = _model(model)
    data, options, custom = _load_arguments(data, format=kind, pipeline=pipeline)
    return ir.Graph(_reflex["ir_of"](data, *options, *_custom(*custom), after))


def run_pass(name: str, model: Any, pipeline: str | None = None) -> Any:
    """Returns the module of a model after one pass alone: a graph of a graph, else TVMScript. `pipeline`
    sets the options of the pass. A pass of kernels, `schedule` or `lower`, runs on all of them.

    >>> "T.prim_func" in reflex.run_pass("fuse_operators", script)
    True
    >>> graph = reflex.nodes(script)
    >>> len(reflex.run_pass("fuse_operators", graph).root.functions) > 1
    True
    """
    if isinstance(model, ir.Graph):
        _, options, custom = _load_arguments("", pipeline=pipeline)
        return ir.Graph(_reflex["run_pass"](model._handle, *options, *_custom(*custom), name))
    data, kind = _model(model)
    data, options, custom = _load_arguments(data, format=kind, pipeline=pipeline)
    return str(_reflex["run_pass"](data, *options, *_custom(*custom), name))


def list_passes() -> str:
    """Returns a table of the passes and their options; `*` is before those that are needed.

    >>> "fuse_operators" in reflex.list_passes()
    True
    """
    return str(_reflex["passes"]())


def register_global_func(name: str, function: Callable[..., Any], override: bool = False) -> None:
    """Registers a callable that programs loaded from now on find by name. A tensor that a kernel calls it with
    (`T.call_packed`) is there for the call alone.

    >>> reflex.register_global_func("docs.add_one", lambda value: value + 1)
    >>> reflex.get_global_func("docs.add_one")(2)
    3
    """
    if not isinstance(function, tvm_ffi.Function):
        function = tvm_ffi.convert(with_tensors(function))
    _reflex["register_global_func"](name, function, override)


def get_global_func(name: str) -> Callable[..., Any] | None:
    """Returns the packed function that programs find under a name, a builtin or a registered one, or None.

    >>> reflex.get_global_func("docs.nothing") is None
    True
    """
    function: Callable[..., Any] | None = _reflex["get_global_func"](name)
    return function


def library_function(path: _Path, name: str) -> Callable[..., Any]:
    """Returns the packed function `name` of a shared library (its symbol is `__tvm_ffi_<name>`). The
    library stays loaded with it. Opening a library runs machine code of its author's choice.

    >>> reflex.library_function("no/such.so", "f")
    Traceback (most recent call last):
        ...
    FileNotFoundError: no/such.so: No such file or directory (os error 2)
    """
    function: Callable[..., Any] = _reflex["library_function"](os.fspath(path), name)
    return function


def memory() -> dict[str, int]:
    """Returns the bytes that tensors take: live, peak_live, resident, peak_resident.

    >>> sorted(reflex.memory())
    ['live', 'peak_live', 'peak_resident', 'resident']
    """
    return dict(zip(("live", "peak_live", "resident", "peak_resident"), _reflex["memory"]()))


def set_memory_limit(limit: int | None) -> None:
    """Limits the bytes that tensors have in use at once: beyond it, calls raise `MemoryError`. None
    removes the limit.

    >>> reflex.set_memory_limit(1 << 30)
    >>> reflex.set_memory_limit(None)
    """
    _reflex["set_memory_limit"](limit)


def _closed(*_: Any) -> Any:
    raise ValueError("this program or session is closed")


class Program(Closing):
    """A loaded model, shared by sessions on any threads.

    It is pickled as its path, or its bytes, and options: unpickling loads it again.

    >>> import pickle
    >>> with pickle.loads(pickle.dumps(program)) as again:
    ...     again.functions
    ['main']
    """

    def __init__(self, handle: Callable[..., Any], source: tuple[Any, ...]) -> None:
        self._handle = handle
        self._source = source
        self._name = "in memory" if isinstance(source[0], bytes) else str(source[0])
        self._signatures: dict[str, Signature] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return load, self._source

    def __repr__(self) -> str:
        return f"<reflex.Program {self._name}>"

    def close(self) -> None:
        """Gives up the program; the end of a `with` does it too. Its sessions stay, and its memory is
        freed with the last of them.

        >>> with reflex.load(model) as other:
        ...     other.functions
        ['main']
        >>> other.functions
        Traceback (most recent call last):
            ...
        ValueError: this program or session is closed
        """
        self._handle = _closed

    def session(
        self,
        mode: str = "tiered",
        device: str = "cpu",
        memory_cfg: str | Mapping[Any, str] = "pooled",
    ) -> Session:
        """Opens a session. `mode` is "bytecode", "compiled" or "tiered". `memory_cfg` is "pooled", which
        keeps memory for reuse, or "naive", which returns it to the system at once; or one of these for
        each of several CPUs.

        >>> session = program.session("compiled", memory_cfg="naive")
        >>> session = program.session("compiled", memory_cfg={"cpu:0": "pooled", "cpu:1": "naive"})
        """
        if not isinstance(memory_cfg, str):
            memory_cfg = ",".join(["pooled"] + [f"{cpu}={kind}" for cpu, kind in memory_cfg.items()])
        return Session(self._handle("session", mode, device, memory_cfg), self._name)

    def module(self, mode: str = "tiered") -> tvm_ffi.Module:
        """Returns the program as a module of tvm-ffi, as `load_module` gives one.

        >>> program.module().kind
        'relax.VMExecutable'
        """
        module: tvm_ffi.Module = self._handle("module", mode)
        return module

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """The inputs of `main`: names, element types and shapes.

        >>> [str(info) for info in program.inputs]
        ['x: float32[n, 8]', 'w: float32[8, 5]']
        """
        return self.signature().inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """The outputs of `main`: names, element types and shapes.

        >>> program.outputs[0].shape
        ('n', 5)
        """
        return self.signature().outputs

    def signature(self, function: str = "main") -> Signature:
        """Returns the inputs and outputs of a function.

        >>> program.signature("main").inputs == program.inputs
        True
        """
        if function not in self._signatures:
            self._signatures[function] = _signature(self._handle, function)
        return self._signatures[function]

    def save(self, path: _Path) -> int:
        """Writes a library that `load` and TVM open; returns its size in bytes.

        >>> program.save("copy.so")          # this one was loaded from a library
        Traceback (most recent call last):
            ...
        NotImplementedError: a .so is compiled already; compile the model itself
        """
        return int(self._handle("save", os.fspath(path)))

    @property
    def functions(self) -> list[str]:
        """The names of the functions that can be called.

        >>> program.functions
        ['main']
        """
        return [str(name) for name in self._handle("functions")]

    def as_text(self) -> str:
        """Returns the instructions, as TVM prints them.

        >>> "@main" in program.as_text()
        True
        """
        return str(self._handle("as_text"))

    def as_python(self) -> str:
        """Returns a script for TVM's `ExecBuilder`.

        >>> "ib.function" in program.as_python()
        True
        """
        return str(self._handle("as_python"))

    def as_rust(self) -> str:
        """Returns a Rust function that builds the program with the VM's `ExecBuilder`.

        >>> "ExecBuilder::new()" in program.as_rust()
        True
        """
        return str(self._handle("as_rust"))

    def tiers(self) -> str:
        """Returns the state of the tiers: compiled code, and the reasons where there is none.

        >>> isinstance(program.tiers(), str)
        True
        """
        return str(self._handle("tiers"))

    def stats(self) -> str:
        """Returns sizes and counts.

        >>> "main" in program.stats()
        True
        """
        return str(self._handle("stats"))


def _signature(handle: Callable[..., Any], function: str) -> Signature:
    """Asks a program or a session for the signature of a function."""

    def info(described: Any) -> TensorInfo:
        name, dtype, shape = described
        dims = tuple(dim if isinstance(dim, int) else str(dim) for dim in shape)
        return TensorInfo(str(name), None if dtype is None else str(dtype), dims)

    inputs, outputs = (tuple(map(info, side)) for side in handle("signature", function) or ((), ()))
    return Signature(inputs, outputs)


class Session(Closing):
    """A program's running state; the methods are those of TVM's `VirtualMachine`, and `run`."""

    def __init__(self, handle: Callable[..., Any], model: str) -> None:
        self._handle = handle
        self._model = model
        self._functions: dict[str, Function] = {}
        self._signatures: dict[str, Signature] = {}
        # The functions of the program that saved ones call.
        self._saved: dict[str, str] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a session cannot be pickled; pickle its program, and open a session of it")

    def __repr__(self) -> str:
        return f"<reflex.Session of {self._model}>"

    def close(self) -> None:
        """Gives up the session; the end of a `with` does it too. Functions that were taken from it keep
        its memory as long as they live.

        >>> with program.session() as other:
        ...     y = other["main"](x, w)
        >>> other["main"]
        Traceback (most recent call last):
            ...
        ValueError: this program or session is closed
        """
        self._handle = _closed
        self._functions.clear()

    def __getitem__(self, name: str) -> Function:
        """Returns a function of the program, looked up once; or a saved one. It takes its arguments by
        position or by name.

        Its `packed` costs a Python frame less a call: it takes tensors and writable, contiguous arrays by
        position, and converts nothing.

        >>> main = session["main"]
        >>> main(x, w=w).shape[1]
        5
        >>> main.packed(x, w).shape[1]
        5
        >>> session["nope"]
        Traceback (most recent call last):
            ...
        KeyError: "there is no function 'nope'; there are main"
        """
        if name not in self._functions:
            self._functions[name] = self._find(name)
        return self._functions[name]

    def _find(self, name: str) -> Function:
        functions = [str(function) for function in self._handle("functions")]
        if name in functions:
            return bound_function(name, self._handle("function", name), self._signature(name))
        if name in self._saved:
            inputs = self._signature(self._saved[name]).inputs
            return saved_function(partial(self._handle, "call", name), inputs)
        known = ", ".join([*functions, *sorted(self._saved)])
        raise KeyError(f"there is no function {name!r}; there are {known}")

    def _signature(self, function: str) -> Signature:
        if function not in self._signatures:
            signature = _signature(self._handle, function)
            if not signature.inputs and function in map(str, self._handle("functions")):
                # Of values that are not tensors the program knows the names.
                inputs = tuple(TensorInfo(name, None, (), is_tensor=False) for name in self.param_names(function))
                signature = Signature(inputs, signature.outputs)
            self._signatures[function] = signature
        return self._signatures[function]

    def _pass(self, method: str, name: str, args: tuple[Any, ...], *options: Any) -> Any:
        """Calls a method with arguments of the function `name`, converted where they must be."""
        call = partial(self._handle, method, name, *options)
        return passing(call, lambda: self._signature(name).inputs, args)

    def run(self, inputs: Mapping[str, ArrayLike], function: str = "main") -> dict[str, Any]:
        """Calls a function with inputs by name, and returns its outputs by name: tensors in the order of
        `Program.outputs`.

        >>> outputs = session.run({"x": x, "w": w})
        >>> outputs["output0"].numpy().shape
        (2, 5)
        """
        signature = self._signature(function)
        args = by_position(function, signature.inputs, (), inputs)
        results = flattened(self[function](*args))
        names = [info.name for info in signature.outputs]
        names += [f"output{index}" for index in range(len(names), len(results))]
        return dict(zip(names, results))

    def call(self, name: str, *args: ArrayLike, **named: ArrayLike) -> Any:
        """Calls a function of the program, or a saved one.

        >>> y = session.call("main", x, w=w)
        """
        function = self._functions.get(name)
        if function is None:
            try:
                function = self[name]
            except KeyError as error:
                raise AttributeError(error.args[0]) from None
        return function(*args, **named)

    def invoke_closure(self, closure: Any, *args: Any) -> Any:
        """Calls a closure that a function of the program returned, or a packed function.

        >>> add_one = tvm_ffi.convert(lambda value: value + 1)
        >>> session.invoke_closure(add_one, 2)
        3
        """
        return self._handle("invoke_closure", closure, *args)

    def param_names(self, name: str) -> list[str]:
        """Returns the names of a function's parameters; empty where its file has none.

        >>> session.param_names("main")
        ['x', 'w']
        """
        return [str(each) for each in self._handle("param_names", name)]

    def _arguments(
        self, name: str, args: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        """Puts named arguments in their places; the others fill what is left, in order."""
        if not named:
            return args
        params = self.param_names(name)
        unknown = [each for each in named if each not in params]
        if unknown:
            raise TypeError(f"`{name}` has no parameter {unknown[0]!r}; it has {', '.join(params)}")
        if len(args) + len(named) != len(params):
            given = len(args) + len(named)
            raise TypeError(f"`{name}` takes {len(params)} arguments ({', '.join(params)}), {given} given")
        rest = iter(args)
        return tuple(named[each] if each in named else next(rest) for each in params)

    def warm_up(self, name: str, *args: ArrayLike) -> int:
        """Calls a function until nothing more of it is being compiled, and drops the results. Returns the
        number of calls.

        >>> session.warm_up("main", x, w) > 0
        True
        """
        return int(self._pass("warm_up", name, args))

    def set_input(self, name: str, *args: ArrayLike, **named: ArrayLike) -> None:
        """Stores the arguments of a function for `invoke_stateful`, by position or by name.

        >>> session.set_input("main", x, w=w)
        >>> session.invoke_stateful("main")
        """
        args = self._arguments(name, args, named)
        try:
            self._handle("set_input", name, *args)
            return
        except (BufferError, NotATensor) as error:
            refusal = error
        inputs = self._signature(name).inputs
        self._handle("set_input", name, *converted(refusal, inputs, args))

    def bind_outputs(self, name: str, *targets: Any) -> None:
        """Makes `invoke_stateful` write results to these arrays, which are contiguous and writable.

        Large results are not copied: those that `get_outputs` gives are these arrays' memory then.

        >>> y = np.zeros((2, 5), "float32")
        >>> session.set_input("main", x, w)
        >>> session.bind_outputs("main", y)
        >>> session.invoke_stateful("main")
        """
        self._handle("bind_outputs", name, *targets)

    def invoke_stateful(self, name: str) -> None:
        """Runs a function on its stored arguments and keeps the result.

        >>> session.set_input("main", x, w)
        >>> session.invoke_stateful("main")
        """
        self._handle("invoke_stateful", name)

    def get_outputs(self, name: str, path: tuple[int, ...] = ()) -> Any:
        """Returns the kept result: a tensor, or a tuple of results.

        >>> session.set_input("main", x, w)
        >>> session.invoke_stateful("main")
        >>> session.get_outputs("main").numpy().shape
        (2, 5)
        """
        arity = self._handle("output_arity", name, *path)
        if arity < 0:
            return self._handle("get_output", name, *path)
        return tuple(self.get_outputs(name, (*path, item)) for item in range(arity))

    def save_function(
        self,
        name: str,
        saved: str,
        *args: ArrayLike,
        include_return: bool = True,
        **named: ArrayLike,
    ) -> None:
        """Saves a function, of the program or saved, with its last arguments under another name. All
        arguments of a function of the program can be given by name.

        >>> session.save_function("main", "with_w", w)
        >>> y = session["with_w"](x)
        >>> session.save_function("main", "of_both", x=x, w=w)
        >>> y = session["of_both"]()
        """
        args = self._arguments(name, args, named)
        save = partial(self._handle, "save_function", name, saved, include_return)
        origin = self._saved.get(name, name)
        passing(save, lambda: self._signature(origin).inputs[-len(args) :], args)
        self._saved[saved] = origin
        self._functions.pop(saved, None)

    def time_evaluator(
        self,
        name: str,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        cooldown_ms: float = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str | None = None,
        limit_zero_time_iterations: int = 100,
    ) -> Callable[..., list[float]]:
        """Returns a callable that times a function: seconds per call of each measurement. The name
        `invoke_stateful` times the function that the callable is given on its stored arguments.

        A pause of `cooldown_ms` is made after each `repeats_to_cooldown` measurements. Before each,
        `cache_flush_bytes` are written, and the global function called `f_preproc` is called with the
        arguments; `cache_flush_cpu_non_first_arg` flushes all but the first from the CPU's caches.
        Where a measurement shall take `min_repeat_ms`, `limit_zero_time_iterations` bounds those of no time.

        >>> len(session.time_evaluator("main", number=2, repeat=3)(x, w))
        3
        >>> cold = session.time_evaluator("main", number=1, f_preproc="cache_flush_cpu_non_first_arg")
        >>> len(cold(x, w))
        1
        """
        repeats = (number, repeat, float(min_repeat_ms), limit_zero_time_iterations)
        pauses = (float(cooldown_ms), repeats_to_cooldown, cache_flush_bytes, f_preproc)
        options = (*repeats, *pauses)
        return lambda *args: list(self._pass("time", name, args, *options))

    def set_instrument(self, instrument: Callable[..., Any] | None) -> None:
        """Calls `instrument(function, name, before_run, result, *args)` before and after each call; it
        returns 1 before a call to skip it. None removes it. `function` is what is called: a packed
        function, or a closure for `invoke_closure`.

        >>> names = []
        >>> session.set_instrument(lambda function, name, *rest: names.append(name))
        >>> y = session["main"](x, w)
        >>> session.set_instrument(None)
        >>> len(names) > 0
        True
        """
        self._handle("set_instrument", instrument)

    def profile(
        self, name: str, *args: ArrayLike, trace: _Path | None = None
    ) -> tuple[str, Any]:
        """Calls a function with every call timed. Returns a table as text, and the result. `trace` names a
        file for the time line, which Perfetto opens.

        >>> table, y = session.profile("main", x, w)
        """
        path = None if trace is None else os.fspath(trace)
        table, result = self._pass("profile", name, args, path)
        return str(table), result

    def set_fuel(self, units: int | None) -> None:
        """Limits what later runs may do: a unit of fuel for each function entered and each backward jump.
        None removes the limit.

        >>> session.set_fuel(0)
        >>> session["main"](x, w)
        Traceback (most recent call last):
            ...
        reflex.FuelExhausted: the fuel is used up
        >>> session.set_fuel(None)
        """
        self._handle("set_fuel", units)

    @property
    def fuel(self) -> int | None:
        """The fuel that is left; None if there is no limit, as at first.

        >>> session.set_fuel(100)
        >>> session.fuel
        100
        >>> session.set_fuel(None)
        >>> session.fuel is None
        True
        """
        fuel: int | None = self._handle("fuel")
        return fuel

    def set_deadline(self, seconds: float | None) -> None:
        """Makes runs fail that go on for longer than this from now, in seconds. None removes it.

        >>> session.set_deadline(60)
        >>> session.set_deadline(None)
        """
        self._handle("set_deadline", None if seconds is None else float(seconds))

    def cancel(self) -> None:
        """Stops the current run, and later ones until `cancel_reset`. Any thread may call it.

        >>> session.cancel()
        >>> session.cancel_reset()
        """
        self._handle("cancel")

    def cancel_reset(self) -> None:
        """Lets runs go on again after `cancel`.

        >>> session.cancel_reset()
        """
        self._handle("cancel_reset")
