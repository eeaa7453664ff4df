"""Finds libreflex.so and opens it as a tvm-ffi module; gives its errors their Python classes."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import tvm_ffi


def _open() -> Any:
    name = "libreflex.so"
    named = os.environ.get("REFLEX_LIBRARY")
    here = Path(__file__).resolve().parent
    builds = [here.parents[1] / "target" / profile for profile in ("release", "debug")]
    for path in [Path(named)] if named else [here / name, *(build / name for build in builds)]:
        if path.exists():
            return tvm_ffi.load_module(str(path))
    raise ImportError(f"{name} was not found; build it with cargo, or name it in REFLEX_LIBRARY")


for _builtin in (MemoryError, OSError, FileNotFoundError, PermissionError, IsADirectoryError,
                 NotADirectoryError, NotImplementedError, RecursionError, TimeoutError):
    tvm_ffi.register_error(_builtin.__name__, _builtin)


@tvm_ffi.register_error("reflex.Cancelled")
class Cancelled(RuntimeError):
    """The run was cancelled from another thread."""


@tvm_ffi.register_error("reflex.FuelExhausted")
class FuelExhausted(RuntimeError):
    """The run used up its fuel."""


@tvm_ffi.register_error("reflex.NotATensor")
class NotATensor(TypeError):
    """An argument is no tensor and the function takes one there; nothing has run yet."""


LIBRARY = _open()
