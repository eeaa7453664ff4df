#!/usr/bin/env python3
"""Build small modules with TVM, export them, and write what TVM's own VM answers.

usage: export.py OUT_DIR          (needs apache-tvm, apache-tvm-ffi, numpy and a C++ compiler)

OUT_DIR/<name>.so, and OUT_DIR/<name>.npz with keys in.<k>.<parameter> and out.<k>.output<i>.
"""
import os
import sys

os.environ.setdefault("TVM_NUM_THREADS", "1")
import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T


@I.ir_module
class Add1:
    """One kernel called on caller's memory: nothing is allocated."""

    @T.prim_func(s_tir=True)
    def add1(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                B[v] = A[v] + T.float32(1)

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Add1
        _ = cls.add1(x, y)
        return y


@I.ir_module
class Mlp:
    """Kernels, a constant-free matrix product and allocation, symbolic batch."""

    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 5), "float32")) -> R.Tensor(("n", 5), "float32"):
        with R.dataflow():
            h = R.matmul(x, w)
            r = R.nn.relu(h)
            out = R.add(r, R.const(1.0, "float32"))
            R.output(out)
        return out


@I.ir_module
class Branch:
    """`If` on a tensor, and a call of another function."""

    @R.function
    def twice(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return R.add(x, x)

    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        cls = Branch
        if c:
            y: R.Tensor((3,), "float32") = cls.twice(x)
        else:
            y: R.Tensor((3,), "float32") = R.negative(x)
        return y


def feeds():
    rng = np.random.default_rng(7)
    f32 = lambda *shape: rng.standard_normal(shape).astype("float32")
    return {
        "add1": (Add1, [dict(x=f32(4), y=f32(4))]),
        "mlp": (Mlp, [dict(x=f32(n, 8), w=f32(8, 5)) for n in (1, 7, 3)]),
        "branch": (Branch, [dict(c=np.array(b), x=f32(3)) for b in (True, False)]),
    }


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    for name, (module, cases) in feeds().items():
        built = relax.build(module, target="llvm", exec_mode="bytecode")
        path = f"{out}/{name}.so"
        built.export_library(path)
        vm = relax.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())
        arrays = {}
        for k, feed in enumerate(cases):
            arrays |= {f"in.{k}.{p}": v for p, v in feed.items()}
            answer = vm["main"](*[tvm.runtime.tensor(v) for v in feed.values()])
            arrays[f"out.{k}.output0"] = answer.numpy()
        np.savez(f"{out}/{name}.npz", **arrays)


if __name__ == "__main__":
    main()
