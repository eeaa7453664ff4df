#!/usr/bin/env python3
"""Registers a tensor intrinsic, and schedules a kernel with it: a tile of a matmul whose sums stay in registers.

usage: tensor_intrin.py
"""
import numpy as np

import reflex

MODEL = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor((96, 256), "float32"), w: R.Tensor((256, 512), "float32")
    ) -> R.Tensor((96, 512), "float32"):
        return R.matmul(x, w)
"""
KERNEL = "mat_mul"

# `C[i, j] += A[i, k] * B[k, j]`, which the kernel has as a fused multiply-add.
DESCRIPTION = """
@T.prim_func(s_tir=True)
def tile(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 16), "float32"), C: T.Buffer((4, 16), "float32")):
    for i, j, k in T.grid(4, 16, 8):
        with T.sblock("update"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = {step}
"""
IMPLEMENTATION = """
@T.prim_func(s_tir=True)
def tile(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 16), "float32"), C: T.Buffer((4, 16), "float32")):
    sums = T.alloc_local((4, 16))
    for i in T.unroll(4):
        for j in T.vectorized(16):
            sums[i, j] = C[i, j]
    for k in range(8):
        for i in T.unroll(4):
            for j in T.vectorized(16):
                sums[i, j] = {step}
    for i in T.unroll(4):
        for j in T.vectorized(16):
            C[i, j] = sums[i, j]
"""


def step(sums: str, i: str, j: str, k: str) -> str:
    return f"T.fma(A[{i}, {k}], B[{k}, {j}], {sums}[{i}, {j}])"


def main() -> None:
    description = DESCRIPTION.format(step=step("C", "vi", "vj", "vk"))
    implementation = IMPLEMENTATION.format(step=step("sums", "i", "j", "k"))
    reflex.register_tensor_intrin("example.tile", description, implementation)
    # What computes something else is refused.
    try:
        reflex.register_tensor_intrin("example.wrong", description, implementation.replace("B[k, j]", "B[k, 15 - j]"))
    except ValueError as error:
        print(f"refused: {str(error).rpartition(': ')[2]}")

    sch = reflex.Schedule(MODEL, KERNEL)
    matmul = sch.get_block("matmul")
    i, j, k = sch.get_loops(matmul)
    rows, row = sch.split(i, [None, 4])
    columns, column = sch.split(j, [None, 16])
    steps, inner = sch.split(k, [None, 8])
    sch.reorder(rows, columns, steps, row, column, inner)
    sch.decompose_reduction(matmul, steps)
    sch.apply("tensorize", row, "example.tile")
    print(sch.trace.splitlines()[-1].strip())

    x = (np.arange(96 * 256) % 13 - 6).astype("float32").reshape(96, 256) / 8
    w = (np.arange(256 * 512) % 11 - 5).astype("float32").reshape(256, 512) / 8
    answers = {}
    for name, schedules in (("tiles", [sch]), ("naive", [f"def {KERNEL}(sch): pass"])):
        session = reflex.compile(MODEL, schedules=schedules).session()
        answers[name] = session["main"](x, w).numpy()
        seconds = min(session.time_evaluator("main", number=3, repeat=3)(x, w))
        print(f"{name}: {seconds * 1e6:.0f} us")
    np.testing.assert_array_equal(answers["tiles"], answers["naive"])
    print("done")


main()
