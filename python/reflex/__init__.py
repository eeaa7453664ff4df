"""Runs tensor programs: ONNX models, TVMScript, artifacts of `reflex compile`, TVM's executables.

>>> import numpy as np, reflex
>>> program = reflex.load(model)                  # .onnx, .py or .so
>>> session = program.session()
>>> y = session["main"](x, w)                     # NumPy arrays, or any with DLPack
>>> np.from_dlpack(y).shape
(2, 5)

Arguments are passed without a copy. Results are `tvm_ffi.Tensor`, which NumPy reads in place with
`numpy.from_dlpack`. A session belongs to one thread at a time; other threads may call `cancel` only.
Needs the package apache-tvm-ffi and libreflex.so, which is looked for in $REFLEX_LIBRARY, next to
this file, and in the build folders of a source tree.

In the examples, `program` is a model whose `main` takes `x` of shape [2, 8] and `w` of shape [8, 5],
`model` is its file, and `session` is a session of it.
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
    """Loads a model: `.onnx` and `.py` are compiled, `.so` is opened (which runs machine code of its
    author's choice).

    `tier` is the tier policy, which says when programs are compiled to machine code: "off", or such as
    "threshold=10,compile=sync,code-cache=1M"; None is that of the variable REFLEX_TIER. `precision` is
    the arithmetic of f32 matrix products and convolutions in a model that is compiled: "f32" (None),
    "f32-fast" or "bf16".

    >>> reflex.load(model, threads=2, tier="off").functions
    ['main']
    """
    cache = None if kernel_cache is None else os.fspath(kernel_cache)
    return Program(_reflex["load"](os.fspath(path), device, threads, cache, tier, precision))


def register_global_func(name, function, override=False):
    """Registers a callable that programs loaded from now on find by name.

    >>> reflex.register_global_func("docs.add_one", lambda value: value + 1)
    >>> reflex.get_global_func("docs.add_one")(2)
    3
    """
    _reflex["register_global_func"](name, tvm_ffi.convert(function), override)


def get_global_func(name):
    """Returns the packed function that programs find under a name, a builtin or a registered one, or None.

    >>> reflex.get_global_func("docs.nothing") is None
    True
    """
    return _reflex["get_global_func"](name)


def library_function(path, name):
    """Returns the packed function `name` of a shared library (its symbol is `__tvm_ffi_<name>`). The
    library stays loaded with it. Opening a library runs machine code of its author's choice.

    >>> reflex.library_function("no/such.so", "f")
    Traceback (most recent call last):
        ...
    OSError: no/such.so: No such file or directory (os error 2)
    """
    return _reflex["library_function"](os.fspath(path), name)


def memory():
    """Returns the bytes that tensors take: live, peak_live, resident, peak_resident.

    >>> sorted(reflex.memory())
    ['live', 'peak_live', 'peak_resident', 'resident']
    """
    return dict(zip(("live", "peak_live", "resident", "peak_resident"), _reflex["memory"]()))


def set_memory_limit(limit):
    """Limits the bytes that tensors have in use at once: beyond it, calls raise `MemoryError`. None
    removes the limit.

    >>> reflex.set_memory_limit(1 << 30)
    >>> reflex.set_memory_limit(None)
    """
    _reflex["set_memory_limit"](limit)


class Program:
    """A loaded model, shared by sessions on any threads."""

    def __init__(self, handle):
        self._handle = handle

    def session(self, mode="tiered", device="cpu", memory_cfg="pooled"):
        """Opens a session. `mode` is "bytecode", "compiled" or "tiered". `memory_cfg` is "pooled", which
        keeps memory for reuse, or "naive", which returns it to the system at once.

        >>> session = program.session("compiled", memory_cfg="naive")
        """
        return Session(self._handle("session", mode, device, memory_cfg))

    def save(self, path):
        """Writes a library that `load` and TVM open; returns its size in bytes.

        >>> program.save("copy.so")          # this one was loaded from a library
        Traceback (most recent call last):
            ...
        NotImplementedError: a .so is compiled already; compile the model itself
        """
        return self._handle("save", os.fspath(path))

    @property
    def functions(self):
        """The names of the functions that can be called.

        >>> program.functions
        ['main']
        """
        return [str(name) for name in self._handle("functions")]

    def as_text(self):
        """Returns the instructions, as TVM prints them.

        >>> "@main" in program.as_text()
        True
        """
        return str(self._handle("as_text"))

    def as_python(self):
        """Returns a script for TVM's `ExecBuilder`.

        >>> "ib.function" in program.as_python()
        True
        """
        return str(self._handle("as_python"))

    def as_rust(self):
        """Returns a Rust function that builds the program with the VM's `ExecBuilder`.

        >>> "ExecBuilder::new()" in program.as_rust()
        True
        """
        return str(self._handle("as_rust"))

    def tiers(self):
        """Returns the state of the tiers: compiled code, and the reasons where there is none.

        >>> isinstance(program.tiers(), str)
        True
        """
        return str(self._handle("tiers"))

    def stats(self):
        """Returns sizes and counts.

        >>> "main" in program.stats()
        True
        """
        return str(self._handle("stats"))


class Session:
    """A program's running state; the methods are those of TVM's `VirtualMachine`."""

    def __init__(self, handle):
        self._handle = handle

    def __getitem__(self, name):
        """Returns a function of the program, looked up once; or a saved one.

        >>> main = session["main"]
        >>> main(x, w).shape[1]
        5
        """
        try:
            return self._handle("function", name)
        except ValueError:
            return lambda *args: self.call(name, *args)

    def call(self, name, *args):
        """Calls a function of the program, or a saved one.

        >>> y = session.call("main", x, w)
        """
        return self._handle("call", name, *args)

    def invoke_closure(self, closure, *args):
        """Calls a closure that a function of the program returned, or a packed function.

        >>> add_one = tvm_ffi.convert(lambda value: value + 1)
        >>> session.invoke_closure(add_one, 2)
        3
        """
        return self._handle("invoke_closure", closure, *args)

    def param_names(self, name):
        """Returns the names of a function's parameters; empty where its file has none.

        >>> session.param_names("main")
        ['x', 'w']
        """
        return [str(each) for each in self._handle("param_names", name)]

    def _arguments(self, name, args, named):
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
        return [named[each] if each in named else next(rest) for each in params]

    def warm_up(self, name, *args):
        """Calls a function until nothing more of it is being compiled, and drops the results. Returns the
        number of calls.

        >>> session.warm_up("main", x, w) > 0
        True
        """
        return self._handle("warm_up", name, *args)

    def set_input(self, name, *args, **named):
        """Stores the arguments of a function for `invoke_stateful`, by position or by name.

        >>> session.set_input("main", x, w=w)
        >>> session.invoke_stateful("main")
        """
        self._handle("set_input", name, *self._arguments(name, args, named))

    def bind_outputs(self, name, *targets):
        """Makes `invoke_stateful` copy results into these tensors.

        >>> y = tvm_ffi.from_dlpack(np.zeros((2, 5), "float32"))
        >>> session.set_input("main", x, w)
        >>> session.bind_outputs("main", y)
        >>> session.invoke_stateful("main")
        """
        self._handle("bind_outputs", name, *targets)

    def invoke_stateful(self, name):
        """Runs a function on its stored arguments and keeps the result.

        >>> session.set_input("main", x, w)
        >>> session.invoke_stateful("main")
        """
        self._handle("invoke_stateful", name)

    def get_outputs(self, name, path=()):
        """Returns the kept result: a tensor, or a tuple of results.

        >>> session.set_input("main", x, w)
        >>> session.invoke_stateful("main")
        >>> np.from_dlpack(session.get_outputs("main")).shape
        (2, 5)
        """
        arity = self._handle("output_arity", name, *path)
        if arity < 0:
            return self._handle("get_output", name, *path)
        return tuple(self.get_outputs(name, (*path, item)) for item in range(arity))

    def save_function(self, name, saved, *args, include_return=True, **named):
        """Saves a function, of the program or saved, with its last arguments under another name. All
        arguments of a function of the program can be given by name.

        >>> session.save_function("main", "with_w", w)
        >>> y = session["with_w"](x)
        >>> session.save_function("main", "of_both", x=x, w=w)
        >>> y = session["of_both"]()
        """
        args = self._arguments(name, args, named)
        self._handle("save_function", name, saved, include_return, *args)

    def time_evaluator(self, name, number=10, repeat=1, min_repeat_ms=0, cooldown_ms=0):
        """Returns a callable that times a function: seconds per call of each measurement. The name
        `invoke_stateful` times the function that the callable is given on its stored arguments.

        >>> len(session.time_evaluator("main", number=2, repeat=3)(x, w))
        3
        """
        options = (number, repeat, min_repeat_ms / 1e3, cooldown_ms / 1e3)
        return lambda *args: list(self._handle("time", name, *options, *args))

    def set_instrument(self, instrument):
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

    def profile(self, name, *args, trace=None):
        """Calls a function with every call timed. Returns a table as text, and the result. `trace` names a
        file for the time line, which Perfetto opens.

        >>> table, y = session.profile("main", x, w)
        """
        table, result = self._handle("profile", name, trace and os.fspath(trace), *args)
        return str(table), result

    def set_fuel(self, units):
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
    def fuel(self):
        """The fuel that is left.

        >>> session.set_fuel(100)
        >>> session.fuel
        100
        >>> session.set_fuel(None)
        """
        return self._handle("fuel")

    def set_deadline(self, seconds):
        """Makes runs fail that go on for longer than this from now, in seconds. None removes it.

        >>> session.set_deadline(60)
        >>> session.set_deadline(None)
        """
        self._handle("set_deadline", None if seconds is None else float(seconds))

    def cancel(self):
        """Stops the current run, and later ones until `cancel_reset`. Any thread may call it.

        >>> session.cancel()
        >>> session.cancel_reset()
        """
        self._handle("cancel")

    def cancel_reset(self):
        """Lets runs go on again after `cancel`.

        >>> session.cancel_reset()
        """
        self._handle("cancel_reset")
