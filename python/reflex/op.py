"""Operators of the caller's: a name, the rule that gives the types of results, an implementation, and what it
fuses with.

>>> import numpy as np, reflex
>>> from reflex import op
>>> kernel = '''
... @T.prim_func(s_tir=True)
... def twice(a: T.handle, b: T.handle):
...     n = T.int64()
...     A = T.match_buffer(a, (n,), "float32")
...     B = T.match_buffer(b, (n,), "float32")
...     for i in range(n):
...         with T.sblock("twice"):
...             v = T.axis.spatial(n, i)
...             B[v] = A[v] * T.float32(2)
... '''
>>> op.register("docs_op.twice", kernel=kernel, fusion="elementwise")
>>> script = '''
... @I.ir_module
... class Module:
...     @R.function
...     def main(x: R.Tensor(("n",), "float32")):
...         return R.negative(R.docs_op.twice(x))
... '''
>>> reflex.compile(script).session()["main"](np.ones(3, "float32")).numpy()
array([-2., -2., -2.], dtype=float32)
"""
from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tvm_ffi

from ._library import LIBRARY as _reflex

__all__ = ["Call", "TensorType", "register"]

#: The value of an attribute.
Attribute = int | float | bool | str | Sequence[int] | Sequence[float]


class TensorType(NamedTuple):
    """The type of a tensor; a dimension is a number, or an expression over names such as "n * 2"."""

    shape: tuple[int | str, ...]
    dtype: str


class Call(NamedTuple):
    """A call of an operator: its name, the types of the operands, every attribute that the operator declares,
    and, for the function that writes the kernel, the types of the results.

    >>> Call("a.b", (TensorType(("n", 4), "float32"),), {"scale": 2.0}, ()).operands[0].shape
    ('n', 4)
    """

    op: str
    operands: tuple[TensorType, ...]
    attrs: dict[str, Any]
    results: tuple[TensorType, ...]


def register(
    name: str,
    infer: Callable[[Call], TensorType | Sequence[TensorType]] | None = None,
    kernel: str | Callable[[Call], str] | None = None,
    packed: str | Callable[..., Any] | None = None,
    fusion: str = "opaque",
    attrs: Mapping[str, str | Attribute] | None = None,
    operands: int | tuple[int, int] = 1,
) -> None:
    """Registers an operator, for the process. TVMScript calls `example.scale` by `R.example.scale(x, alpha=2.0)`; in
    ONNX it is the operator `scale` of the domain `example`.

    `infer` gives the types of the results of a call; without it there is one, of the type of the first operand.
    The implementation is a `kernel`, the text of a PrimFunc that takes operands, then results, or a function
    that gives one for a call; or `packed`, a callable or the name of a registered one, which takes the
    operands, then the attributes in order, and returns the results. `fusion` is "elementwise", "broadcast",
    "injective", "reduction", "out_fusable" or "opaque". `attrs` has attributes with their defaults, or their
    kinds where each call gives them: "int", "float", "bool", "str", "ints" or "floats"; a string that is a default
    is given as `("str", default)`. `operands` is their number, or the fewest and the most.

    >>> register("docs_op.plus", packed=lambda x, step: x, attrs={"step": 1}, infer=lambda call: call.operands[0])
    >>> register("docs_op.plus", packed="docs_op.plus")
    Traceback (most recent call last):
        ...
    ValueError: operator "docs_op.plus" is registered already
    """
    functions: list[Any] = []

    def named(part: str, function: Any) -> str:
        functions.extend((part, tvm_ffi.convert(function)))
        return part

    fewest, most = (operands, operands) if isinstance(operands, int) else operands
    description: dict[str, Any] = {
        "name": name,
        "operands": (fewest, most),
        "fusion": fusion,
        "attrs": [_attribute(key, value) for key, value in (attrs or {}).items()],
    }
    if infer is not None:
        description["infer"] = named("infer", lambda text: _inferred(infer, _call(text)))
    if isinstance(kernel, str):
        description["kernel_text"] = kernel
    elif kernel is not None:
        description["kernel"] = named("kernel", lambda text: str(kernel(_call(text))))
    if isinstance(packed, str):
        description["packed"] = packed
    elif packed is not None:
        description["packed"] = f"reflex.op.{name.removeprefix('relax.')}"
    _reflex["register_operator"](json.dumps(description), functions)
    if callable(packed):
        _reflex["register_global_func"](description["packed"], tvm_ffi.convert(packed), True)


def _attribute(name: str, value: Any) -> dict[str, Any]:
    kinds = ("int", "float", "bool", "str", "ints", "floats")
    if isinstance(value, str) and value in kinds:
        return {"name": name, "kind": value}
    if isinstance(value, tuple) and len(value) == 2 and value[0] in kinds:
        return {"name": name, "kind": value[0], "default": value[1]}
    for kind, types in (("bool", bool), ("int", int), ("float", float)):
        if isinstance(value, types):
            return {"name": name, "kind": kind, "default": value}
    if isinstance(value, str):
        raise TypeError(f'the attribute {name!r}: a default that is a string is given as ("str", {value!r})')
    items = list(value)
    kind = "ints" if all(isinstance(item, int) for item in items) else "floats"
    return {"name": name, "kind": kind, "default": items}


def _types(items: Any) -> tuple[TensorType, ...]:
    return tuple(TensorType(tuple(item["shape"]), item["dtype"]) for item in items)


def _call(text: Any) -> Call:
    call = json.loads(str(text))
    return Call(call["op"], _types(call["operands"]), call["attrs"], _types(call.get("results", ())))


def _inferred(infer: Callable[[Call], Any], call: Call) -> str:
    found = infer(call)
    listed = [found] if isinstance(found, TensorType) else list(found)
    types = [TensorType(*item) for item in listed]
    return json.dumps([{"shape": list(item.shape), "dtype": item.dtype} for item in types])
