"""The parameters of exported modules as the constants of a TVMScript: TVM's JSON graph of objects."""
from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ._trace import Parameter


class Table:
    """The parameters of a module by path, and those that functions use as constants."""

    def __init__(self, paths: Mapping[int, str], as_inputs: bool) -> None:
        self._paths = paths
        self._nodes: list[dict[str, Any]] = []
        self._entries: list[int] = []
        self._known: dict[int, int] = {}
        self.as_inputs = as_inputs

    def path(self, parameter: Parameter) -> str:
        """The path of a parameter."""
        path = self._paths.get(id(parameter))
        if path is None:
            raise ValueError(f"a parameter of shape {parameter.shape} is no attribute of the module")
        return path

    def constant(self, parameter: Parameter, path: str) -> str:
        """The entry of a parameter."""
        if id(parameter) not in self._known:
            if parameter.data is None:
                raise ValueError(
                    f'the parameter {path} has no data: set it, or export with parameters="inputs"'
                )
            self._known[id(parameter)] = len(self._entries)
            self._entries.append(self._constant(parameter.data))
        return f'metadata["ir.GenericConst"][{self._known[id(parameter)]}]'

    def _node(self, kind: str, data: Any) -> int:
        self._nodes.append({"type": kind, "data": data})
        return len(self._nodes) - 1

    def _constant(self, array: np.ndarray[Any, Any]) -> int:
        if not self._nodes:
            self._nodes.append({"type": "None"})
        int64 = self._node("ir.PrimType", {"span": 0, "dtype": "int64"})
        sizes = [self._node("int", size) for size in array.shape]
        values = self._node(
            "ffi.Array",
            [self._node("ir.IntImm", {"span": 0, "ty": int64, "value": size}) for size in sizes],
        )
        rank = self._node("int", array.ndim)
        shape_type = {"span": 0, "values": values, "ndim": rank}
        shape = {"span": 0, "ty": self._node("relax.ShapeType", shape_type), "values": values}
        dtype = self._node("ir.PrimType", {"span": 0, "dtype": str(array.dtype)})
        tensor_type = {
            "span": 0, "shape": self._node("relax.expr.ShapeExpr", shape), "dtype": dtype,
            "vdevice": 0, "ndim": rank,
        }
        kind = self._node("relax.TensorType", tensor_type)
        value = self._node("ffi.Tensor", base64.b64encode(_saved(array)).decode())
        return self._node("ir.GenericConst", {"span": 0, "ty": kind, "value": value})

    def text(self) -> str:
        """The table before the functions; nothing without constants."""
        if not self._entries:
            return ""
        key = self._node("ffi.String", "ir.GenericConst")
        root = self._node("ffi.Map", [key, self._node("ffi.Array", self._entries)])
        graph = {"root_index": root, "nodes": self._nodes, "metadata": {"tvm_version": "0.27.0"}}
        quoted = json.dumps(graph).replace("\\", "\\\\").replace('"', '\\"')
        return f'metadata = tvm.ir.load_json("""{quoted}""")\n'


#: Type codes of DLPack by NumPy's kinds.
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


def _saved(array: np.ndarray[Any, Any]) -> bytes:
    """A tensor as TVM saves it: magic, reserved field, CPU device, rank, type, shape, size, bytes."""
    code = 4 if array.dtype.name == "bfloat16" else _CODES.get(array.dtype.kind)
    if code is None:
        raise TypeError(f"a parameter of type {array.dtype} cannot be a constant")
    head = struct.pack("<QQiii", 0xDD5E40F096B4A13F, 0, 1, 0, array.ndim)
    kind = struct.pack("<BBH", code, array.dtype.itemsize * 8, 1)
    return head + kind + struct.pack(f"<{array.ndim + 1}q", *array.shape, array.nbytes) + array.tobytes()
