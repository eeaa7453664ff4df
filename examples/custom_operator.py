#!/usr/bin/env python3
"""A user's operator from ONNX to a traced call, a library in place of what a pattern matches, and a toy of an
external code generator whose code is saved in an artifact.

usage: custom_operator.py   (writes ONNX with a few lines of its own; needs no package for it)
"""
import json
import os
import re
import tempfile
from typing import Any

import numpy as np
import tvm_ffi

import reflex
from reflex import dpl, op

# An operator: y = x * scale + 1, for matrices of any number of rows.


def scaled(call: op.Call) -> str:
    """The kernel of a call, for its shapes and attributes."""
    (rows, columns), dtype = call.operands[0]
    return f'''
@T.prim_func(s_tir=True)
def scaled(a: T.handle, b: T.handle):
    {rows if isinstance(rows, str) else "n"} = T.int64()
    A = T.match_buffer(a, ({rows}, {columns}), "{dtype}")
    B = T.match_buffer(b, ({rows}, {columns}), "{dtype}")
    for i, j in T.grid({rows}, {columns}):
        with T.sblock("scaled"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32({call.attrs["scale"]}) + T.float32(1)
'''


def same(call: op.Call) -> op.TensorType:
    """The type of the result."""
    if len(call.operands[0].shape) != 2:
        raise ValueError("a Scaled is of matrices")
    return call.operands[0]


def field(number: int, value: Any) -> bytes:
    """A field of a protobuf message: a number, or bytes."""
    def varint(n: int) -> bytes:
        out = b""
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def model() -> bytes:
    """`y = tanh(Scaled(-x))` as ONNX, with `Scaled` of the domain `example`."""
    def node(kind: str, x: str, y: str, *more: bytes) -> bytes:
        return field(1, field(1, x) + field(2, y) + field(4, kind) + b"".join(more))

    def tensor(name: str) -> bytes:
        dims = field(1, field(2, "n")) + field(1, field(1, 4))
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))

    scale = field(5, field(1, "scale") + b"\x15" + np.float32(3).tobytes() + field(20, 1))
    nodes = node("Neg", "x", "a") + node("Scaled", "a", "b", field(7, "example"), scale) + node("Tanh", "b", "y")
    graph = nodes + field(2, "g") + field(11, tensor("x")) + field(12, tensor("y"))
    opsets = field(8, field(2, 17)) + field(8, field(1, "example") + field(2, 1))
    return field(1, 8) + field(7, graph) + opsets


def of_onnx() -> None:
    """From ONNX to a traced call; the operator is fused with its neighbours."""
    op.register("example.Scaled", infer=same, kernel=scaled, fusion="elementwise", attrs={"scale": 1.0})
    fused = reflex.inspect(model(), after="fuse_operators")
    print("kernels:", *re.findall(r"def (fused_\w+)", fused))
    program = reflex.compile(model(), tier="threshold=2,compile=sync")
    session = program.session()
    x = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
    for _ in range(20):
        y = session["main"](x).numpy()
    np.testing.assert_allclose(y, np.tanh(-x * 3 + 1), rtol=1e-5)
    print("traced:", "trace" in program.tiers())


# A library, and a code generator, in place of what a pattern matches.

SCRIPT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        y = R.matmul(R.exp(x), w)
        z = R.nn.relu(y)
        return R.negative(R.multiply(z, R.const(2.0, "float32")))
"""


def library() -> None:
    """NumPy computes each product with the maximum behind it."""
    calls = []

    def matmul_relu(x: Any, w: Any) -> Any:
        calls.append(x.shape)
        return tvm_ffi.from_dlpack(np.maximum(np.from_dlpack(x) @ np.from_dlpack(w), 0))

    product = dpl.is_op("relax.matmul")(dpl.wildcard(), dpl.wildcard().has_shape([4, 4]))
    dispatch = dpl.Dispatch(
        "numpy.matmul_relu",
        dpl.is_op("relax.nn.relu")(product),
        packed=matmul_relu,
        check=lambda known, script: known["annotations"]["product"]["dtype"] == "float32",
        annotations={"product": product},
    )
    program = reflex.compile(SCRIPT, dispatch=[dispatch])
    x, w = np.eye(3, 4, dtype="float32"), np.arange(16, dtype="float32").reshape(4, 4) - 8
    y = program.session()["main"](x, w).numpy()
    np.testing.assert_allclose(y, -2 * np.maximum(np.exp(x) @ w, 0), rtol=1e-5)
    print("library calls:", len(calls))


def toy(source: bytes) -> tvm_ffi.Module:
    """A module of the toy's code: elementwise chains, as a list of NumPy's functions."""
    code = json.loads(source)
    constant = np.float32(code["constant"])

    def run(x: Any) -> Any:
        value = np.from_dlpack(x)
        for step in code["steps"]:
            value = np.negative(value) if step == "negative" else value * constant
        return tvm_ffi.from_dlpack(np.ascontiguousarray(value))

    return dpl.function_module("toy", {code["symbol"]: run}, source)


def generate(symbol: str, script: str, known: dict[str, Any]) -> tvm_ffi.Module:
    """The toy's code for a region."""
    steps = re.findall(r"R\.(multiply|negative)\(", script)
    constant = float(re.findall(r"R\.const\(([-\d.]+)", script)[0])
    return toy(json.dumps({"symbol": symbol, "steps": steps, "constant": constant}).encode())


def code_generator() -> None:
    """A region becomes the toy's code, which an artifact keeps."""
    reflex.register_global_func("relax.ext.toy", lambda *args: generate(*map(str, args[:2]), {}))
    reflex.register_global_func("ffi.Module.load_from_bytes.toy", lambda source: toy(bytes(source)))
    chain = dpl.is_op("relax.multiply")(dpl.wildcard(), dpl.is_const()) >> dpl.is_op("relax.negative")
    program = reflex.compile(SCRIPT, dispatch=[dpl.Dispatch("toy.chain", chain, external="toy")])
    x, w = np.eye(3, 4, dtype="float32"), np.arange(16, dtype="float32").reshape(4, 4) - 8
    expected = -2 * np.maximum(np.exp(x) @ w, 0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "toy.so")
        program.save(path)
        for each in (program, reflex.load(path)):
            np.testing.assert_allclose(each.session()["main"](x, w).numpy(), expected, rtol=1e-5)
    print("functions of the toy:", "fused_toy_chain_0" in program.as_text())


def main() -> None:
    of_onnx()
    library()
    code_generator()
    print("done")


if __name__ == "__main__":
    main()
