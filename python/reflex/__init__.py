"""Runs tensor programs: ONNX models, TVMScript, compiled libraries, TVM's executables.

    import reflex
    program = reflex.load("model.onnx")
    session = program.session()
    y = session["main"](x)            # x: a NumPy array, or anything that speaks DLPack

Arguments are passed without a copy; tensors come back as `tvm_ffi.Tensor`, which NumPy reads in
place with `numpy.from_dlpack`. A session belongs to one thread at a time; `cancel` alone may be
called from others. Needs the package apache-tvm-ffi and libreflex.so, which is looked for in
$REFLEX_LIBRARY, beside this file, and in the build folders of a source tree.
"""
import os
from pathlib import Path

import tvm_ffi

__all__ = ["Cancelled", "FuelExhausted", "Program", "Session", "get_global_func",
           "library_function", "load", "memory", "register_global_func", "set_memory_limit"]


for _builtin in (MemoryError, OSError, NotImplementedError, RecursionError, TimeoutError):
    tvm_ffi.register_error(_builtin.__name__, _builtin)


@tvm_ffi.register_error("reflex.Cancelled")
class Cancelled(RuntimeError):
    """The run was cancelled from another thread."""


@tvm_ffi.register_error("reflex.FuelExhausted")
class FuelExhausted(RuntimeError):
    """The run used up its fuel."""


def _library():
    name = "libreflex.so"
    named = os.environ.get("REFLEX_LIBRARY")
    here = Path(__file__).resolve().parent
    builds = [here.parents[1] / "target" / profile for profile in ("release", "debug")]
    for path in [Path(named)] if named else [here / name, *(build / name for build in builds)]:
        if path.exists():
            return tvm_ffi.load_module(str(path))
    raise ImportError(f"{name} was not found; build it with cargo, or name it in REFLEX_LIBRARY")


_reflex = _library()


def load(path, device="cpu", threads=1, kernel_cache=None, tier=None, precision=None):
    """Loads a model: `.onnx` and `.py` are compiled, `.so` is opened (which runs machine code of
    its author's choice). `tier` says when its programs become machine code: "off", or such as
    "threshold=10,compile=sync,code-cache=1M"; None is what the variable REFLEX_TIER says.
    `precision` is the arithmetic of f32 products in a model that is compiled: "f32" (None),
    "f32-fast" or "bf16"."""
    cache = None if kernel_cache is None else os.fspath(kernel_cache)
    return Program(_reflex["load"](os.fspath(path), device, threads, cache, tier, precision))


def register_global_func(name, function, override=False):
    """Registers a callable that programs loaded from now on find by name."""
    _reflex["register_global_func"](name, tvm_ffi.convert(function), override)


def get_global_func(name):
    """The packed function that is registered under a name, or None."""
    return _reflex["get_global_func"](name)


def library_function(path, name):
    """The packed function `name` of a shared library (its symbol is `__tvm_ffi_<name>`), which
    stays loaded with it. Opening a library runs machine code of its author's choice."""
    return _reflex["library_function"](os.fspath(path), name)


def memory():
    """Bytes that tensors take: live, peak_live, resident, peak_resident."""
    return dict(zip(("live", "peak_live", "resident", "peak_resident"), _reflex["memory"]()))


def set_memory_limit(limit):
    """Bounds the bytes that tensors have in use at once: beyond it, calls raise `MemoryError`.
    None takes the bound away."""
    _reflex["set_memory_limit"](limit)


class Program:
    """A loaded model, shared by sessions on any threads."""

    def __init__(self, handle):
        self._handle = handle

    def session(self, mode="tiered", device="cpu", memory_cfg="pooled"):
        """Opens a session; `mode` is "bytecode", "compiled" or "tiered". `memory_cfg` is "pooled",
        which keeps memory for reuse, or "naive", which gives it back at once."""
        return Session(self._handle("session", mode, device, memory_cfg))

    def save(self, path):
        """Writes a library that `load` and TVM open; returns its size."""
        return self._handle("save", os.fspath(path))

    @property
    def functions(self):
        """Names of the functions that can be called."""
        return [str(name) for name in self._handle("functions")]

    def as_text(self):
        """Instructions, as TVM prints them."""
        return str(self._handle("as_text"))

    def as_python(self):
        """A script for TVM's `ExecBuilder`."""
        return str(self._handle("as_python"))

    def as_rust(self):
        """A Rust function that builds it with the VM's `ExecBuilder`."""
        return str(self._handle("as_rust"))

    def tiers(self):
        """What became machine code so far, what did not, and why."""
        return str(self._handle("tiers"))

    def stats(self):
        """Sizes and counts."""
        return str(self._handle("stats"))


class Session:
    """A program's running state; the methods are those of TVM's `VirtualMachine`."""

    def __init__(self, handle):
        self._handle = handle

    def __getitem__(self, name):
        """A function of the program, looked up once; or a saved one."""
        try:
            return self._handle("function", name)
        except ValueError:
            return lambda *args: self.call(name, *args)

    def call(self, name, *args):
        """Calls a function of the program, or a saved one."""
        return self._handle("call", name, *args)

    def warm_up(self, name, *args):
        """Calls a function until nothing more of it is being compiled, and drops the results;
        answers how often that was."""
        return self._handle("warm_up", name, *args)

    def set_input(self, name, *args):
        """Stores the arguments of a function."""
        self._handle("set_input", name, *args)

    def bind_outputs(self, name, *targets):
        """Makes `invoke_stateful` copy results into these tensors."""
        self._handle("bind_outputs", name, *targets)

    def invoke_stateful(self, name):
        """Runs a function on its stored arguments and keeps the result."""
        self._handle("invoke_stateful", name)

    def get_outputs(self, name, path=()):
        """The kept result: a tensor, or a tuple of results."""
        arity = self._handle("output_arity", name, *path)
        if arity < 0:
            return self._handle("get_output", name, *path)
        return tuple(self.get_outputs(name, (*path, item)) for item in range(arity))

    def save_function(self, name, saved, *args, include_return=True):
        """Saves a function with its last arguments under another name."""
        self._handle("save_function", name, saved, include_return, *args)

    def time_evaluator(self, name, number=10, repeat=1, min_repeat_ms=0, cooldown_ms=0):
        """A callable that times a function: seconds per call of each measurement."""
        options = (number, repeat, min_repeat_ms / 1e3, cooldown_ms / 1e3)
        return lambda *args: list(self._handle("time", name, *options, *args))

    def set_instrument(self, instrument):
        """Calls `instrument(function, name, before_run, result, *args)` before and after each
        call; answering 1 before a call skips it. None takes it away. `function` is None."""
        self._handle("set_instrument", instrument)

    def profile(self, name, *args, trace=None):
        """Calls a function with every call timed: a table as text, and the result. `trace` names
        a file for the time line, which Perfetto opens."""
        table, result = self._handle("profile", name, trace and os.fspath(trace), *args)
        return str(table), result

    def set_fuel(self, units):
        """Limits what later runs may do: a unit for each function entered and each backward
        jump. None is no limit."""
        self._handle("set_fuel", units)

    @property
    def fuel(self):
        """What is left of the fuel."""
        return self._handle("fuel")

    def set_deadline(self, seconds):
        """Makes runs fail that go on for longer than this from now. None takes it away."""
        self._handle("set_deadline", None if seconds is None else float(seconds))

    def cancel(self):
        """Stops the current run, and later ones until `cancel_reset`. Any thread may call it."""
        self._handle("cancel")

    def cancel_reset(self):
        """Lets runs go on again."""
        self._handle("cancel_reset")
