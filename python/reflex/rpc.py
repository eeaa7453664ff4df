"""Sessions at RPC servers: `reflex serve`, and servers of TVM.

>>> session = reflex.rpc.connect("127.0.0.1:9090")            # doctest: +SKIP
>>> session.upload("model.so")                                 # doctest: +SKIP
>>> vm = session.load_module("model.so")["vm_load_executable"]() # doctest: +SKIP
>>> y = vm["main"](tvm_ffi.from_dlpack(x))                     # doctest: +SKIP

A module of a server is a `tvm_ffi.Module`, and its functions are ordinary ones: tensors among their
arguments are copied there for the call, and tensors that they return are copied here, unless the module
was loaded with `results="there"`. Then, and where `Session.array` made them, they are a `RemoteTensor`,
which any function of the session takes without a copy.
"""
from __future__ import annotations

import os
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm_ffi

from ._closing import Closing
from ._library import LIBRARY as _reflex

__all__ = ["RemoteTensor", "Session", "connect"]


@tvm_ffi.register_object(str(_reflex["rpc_tensor_key"]()))
class RemoteTensor(tvm_ffi.Object):
    """A tensor in the memory of a server; it is freed there when it is no longer used here."""

    @property
    def dtype(self) -> str:
        """The element type, such as `float32`."""
        return str(_reflex["rpc_describe"](self)[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        return tuple(int(extent) for extent in _reflex["rpc_describe"](self)[1])

    def numpy(self) -> np.ndarray[Any, Any]:
        """Returns a copy here."""
        return np.from_dlpack(_reflex["rpc_to_local"](self))

    def write(self, array: Any) -> None:
        """Overwrites the elements with those of an array of as many bytes."""
        _reflex["rpc_write"](self, _tensor(array))


def _tensor(array: Any) -> Any:
    if isinstance(array, tvm_ffi.Tensor):
        return array
    return tvm_ffi.from_dlpack(np.array(array, order="C"))


def connect(
    address: str | None = None,
    key: str = "",
    certificates: str | os.PathLike[str] | None = None,
    token_file: str | os.PathLike[str] | None = None,
    tracker: str | None = None,
    wait: float | None = None,
) -> Session:
    """Starts a session at a server, `host:port`; `key` is the server's, where it has one.

    `certificates` and `token_file` are for a server that listens by TLS: files of the certificates that
    vouch for it, and of a token. With a `tracker` instead of an address the session is at any server that
    it has under the key, for which this waits for so many seconds (None is without end); both are then
    connected to by TLS, if certificates and a token are given.
    """
    if (address is None) == (tracker is None):
        raise ValueError("a session is at an address or at a tracker's server")
    files = [None if path is None else os.fspath(path) for path in (certificates, token_file)]
    return Session(_reflex["rpc_connect"](address or "", key, *files, tracker, wait))


class Session(Closing):
    """A session at a server. The end of a `with` ends it; so does its last reference."""

    def __init__(self, handle: Callable[..., Any]) -> None:
        self._handle = handle

    def close(self) -> None:
        """Ends the session. Calls of what it gave are errors from then on."""
        self._handle("shut_down")

    def upload(self, path: str | os.PathLike[str], name: str | None = None) -> int:
        """Makes a file here a file of the session; its name there is the last part of the path. Returns
        the bytes that travelled: a server of Reflex takes only those that it lacks."""
        return int(self._handle("upload", os.fspath(path), name or os.path.basename(path)))

    def upload_bytes(self, name: str, data: bytes) -> None:
        """Makes bytes a file of the session."""
        self._handle("upload_bytes", name, data)

    def download(self, name: str) -> bytes:
        """Returns a file of the session."""
        return bytes(self._handle("download", name))

    def remove(self, name: str) -> None:
        """Deletes a file of the session."""
        self._handle("remove", name)

    def load_module(self, name: str, results: str = "here") -> tvm_ffi.Module:
        """Loads a file of the session, or one of the server's models. `results` says where tensors stay
        that its functions return: "here" or "there"."""
        module: tvm_ffi.Module = self._handle("load_module", name, results)
        return module

    def get_function(self, name: str, results: str = "here") -> Callable[..., Any]:
        """Returns a global function of the server."""
        function: Callable[..., Any] | None = self._handle("function", name, results)
        if function is None:
            raise AttributeError(f"the server has no function {name!r}")
        return function

    def empty(self, shape: tuple[int, ...], dtype: str = "float32") -> RemoteTensor:
        """Makes a tensor there whose values are unspecified."""
        tensor: RemoteTensor = self._handle("empty", tvm_ffi.Shape(shape), dtype)
        return tensor

    def array(self, array: Any) -> RemoteTensor:
        """Copies an array there."""
        tensor: RemoteTensor = self._handle("to_remote", _tensor(array))
        return tensor

    def time_evaluator(
        self,
        module: tvm_ffi.Module,
        name: str,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str | None = None,
    ) -> Callable[..., list[float]]:
        """Returns a callable that times a function of a module at the server: seconds per call of each
        measurement. The options are those of TVM."""
        options = (number, repeat, min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms)
        more = (repeats_to_cooldown, cache_flush_bytes, f_preproc)
        evaluator = self._handle("time_evaluator", module, name, *options, *more)

        def measure(*args: Any) -> list[float]:
            data = bytes(evaluator(*args))
            return list(struct.unpack(f"<{len(data) // 8}d", data))

        return measure
