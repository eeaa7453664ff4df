"""TVM's `relax.VirtualMachine` over `reflex`, for TVM's own tests."""
import os
import tempfile
from numbers import Integral, Number

import numpy as np
import reflex
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

MODE = os.environ["REFLEX_SUITE_MODE"]
# Hot at once, so that short tests reach the tiers.
TIER = "threshold=1,compile=sync" if MODE == "tiered" else None


@I.ir_module
class Nothing:
    @T.prim_func
    def nothing(x: T.Buffer((1,), "int8")):
        T.evaluate(0)


_load_module = tvm.runtime.load_module
_paths = []


def load_module(path, *rest, **options):
    """Loads a module as TVM does, and remembers its file, which a loaded module does not know."""
    module = _load_module(path, *rest, **options)
    if str(path).endswith(".so"):
        _paths.append((module, str(path)))
    return module


class VirtualMachine:
    """A session on the library that a module is exported to."""

    NAIVE_ALLOCATOR = 1
    POOLED_ALLOCATOR = 2
    # Sessions that this process has opened.
    opened = 0

    def __init__(self, rt_mod, device, memory_cfg=None):
        if not isinstance(rt_mod, (tvm.runtime.Module, tvm.runtime.Executable)):
            raise TypeError(f"{type(rt_mod)} is no module")
        if not isinstance(device, (tvm.runtime.Device, list, tuple)):
            raise TypeError("dev is expected to be Device or List[Device]")
        devices = list(device) if isinstance(device, (list, tuple)) else [device]
        if memory_cfg is not None and not isinstance(memory_cfg, (str, dict)):
            raise TypeError("memory_cfg is expected be string or dictionary")
        if isinstance(memory_cfg, dict):
            naive = all(memory_cfg.get(device) == self.NAIVE_ALLOCATOR for device in devices)
            memory_cfg = "naive" if naive else "pooled"
        self.module = rt_mod if isinstance(rt_mod, tvm.runtime.Module) else rt_mod.mod
        VirtualMachine.opened += 1
        self.program = reflex.load(self._library(rt_mod), tier=TIER)
        names = ",".join(f"{device.type}:{device.index}" for device in devices)
        self.session = self.program.session(MODE, device=names, memory_cfg=memory_cfg or "pooled")

    def _library(self, rt_mod):
        if isinstance(rt_mod, tvm.runtime.Module):
            for module, path in _paths:
                if module.same_as(rt_mod):
                    return path
            rt_mod = tvm.runtime.Executable(rt_mod)
        if not rt_mod.mod.imports:
            # TVM exports no library of bytecode alone.
            rt_mod.mod.import_module(tvm.compile(Nothing, target="llvm").mod)
        self._folder = tempfile.TemporaryDirectory()
        path = os.path.join(self._folder.name, "module.so")
        rt_mod.export_library(path)
        return path

    def __getitem__(self, name):
        try:
            return self.session[name]
        except (KeyError, ValueError, AttributeError) as error:
            raise AttributeError(f"Module has no function '{name}'") from error

    def invoke_closure(self, closure, *args):
        return self.session.invoke_closure(closure, *args)

    def set_input(self, func_name, *args, **kwargs):
        args, kwargs = _converted(args), {name: _convert(arg) for name, arg in kwargs.items()}
        self.session.set_input(func_name, *args, **kwargs)

    def invoke_stateful(self, func_name):
        self.session.invoke_stateful(func_name)

    def get_outputs(self, func_name):
        return self.session.get_outputs(func_name)

    def save_function(self, func_name, saved_name, *args, include_return=True, **kwargs):
        args, kwargs = _converted(args), {name: _convert(arg) for name, arg in kwargs.items()}
        self.session.save_function(func_name, saved_name, *args, include_return=include_return, **kwargs)

    def set_instrument(self, instrument):
        self.session.set_instrument(instrument)

    def time_evaluator(self, func_name, dev, number=10, repeat=1, min_repeat_ms=0, cooldown_interval_ms=0,
                       repeats_to_cooldown=1, f_preproc=""):
        timer = self.session.time_evaluator(func_name, number, repeat, min_repeat_ms, cooldown_interval_ms)
        return lambda *args: tvm.runtime.module.BenchmarkResult(timer(*_converted(args)))


def _converted(args):
    return [_convert(arg) for arg in args]


def _convert(arg):
    """What TVM's own VirtualMachine makes of an argument."""
    if isinstance(arg, np.ndarray):
        return tvm.runtime.tensor(arg, device=tvm.cpu(0))
    if isinstance(arg, (tuple, list)):
        return tuple(_convert(item) for item in arg)
    if isinstance(arg, Number) and not isinstance(arg, tvm.runtime.Object):
        whole = isinstance(arg, (Integral, bool))
        dtype = "float16" if isinstance(arg, np.float16) else "int32" if whole else "float32"
        return tvm.runtime.tensor(np.array(arg, dtype=dtype), device=tvm.cpu(0))
    return arg


def get_global_func(name, allow_missing=False, _tvm=tvm.get_global_func):
    """A function of TVM's registry, unless Reflex has a builtin of that name."""
    found = reflex.get_global_func(name) if name.startswith("vm.builtin.") else None
    theirs = _tvm(name, allow_missing=True)
    if found is None or (theirs is not None and found.same_as(theirs)):
        return _tvm(name, allow_missing)
    VirtualMachine.opened += 1
    return found


def install():
    """Puts these in the place of TVM's."""
    import tvm.relax
    import tvm.relax.frontend.nn.core
    import tvm.runtime.vm

    tvm.runtime.load_module = tvm.runtime.module.load_module = load_module
    for place in (tvm.relax, tvm.runtime.vm, tvm.relax.frontend.nn.core):
        place.VirtualMachine = VirtualMachine
    tvm.get_global_func = get_global_func
