#!/usr/bin/env python3
"""Schedules a kernel by hand, and times it beside the schedule that the rules choose.

usage: schedule.py
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
        with R.dataflow():
            y = R.nn.relu(R.matmul(x, w))
            R.output(y)
        return y
"""
KERNEL = "fused_mat_mul_max"


def by_hand() -> reflex.Schedule:
    """A tile of six rows and 32 columns, whose sums stay in registers."""
    sch = reflex.Schedule(MODEL, KERNEL)
    matmul, relu = sch.get_block("matmul"), sch.get_block("binary")
    i, j, k = sch.get_loops(matmul)
    rows, row = sch.split(i, [None, 6])
    columns, vectors, lanes = sch.split(j, [None, 2, 16])
    sch.reorder(rows, columns, k, row, vectors, lanes)
    sch.apply("reverse_compute_at", relu, columns)
    zero = sch.decompose_reduction(matmul, k)
    sch.set_scope(matmul, 0, "local")
    for block in (zero, matmul, relu):
        *_, inner, lane = sch.get_loops(block)
        if block == relu:
            _, lane = sch.split(lane, [None, 16])
        sch.vectorize(lane)
        if block != relu:
            sch.unroll(inner)
    sch.unroll(row)
    return sch


def main() -> None:
    sch = by_hand()
    print(sch.trace)
    x = (np.arange(96 * 256) % 13 - 6).astype("float32").reshape(96, 256) / 8
    w = (np.arange(256 * 512) % 11 - 5).astype("float32").reshape(256, 512) / 8
    answers, seconds = {}, {}
    for name, schedules in (("rules", []), ("by hand", [sch]), ("naive", [f"def {KERNEL}(sch): pass"])):
        session = reflex.compile(MODEL, schedules=schedules).session()
        answers[name] = session["main"](x, w).numpy()
        seconds[name] = min(session.time_evaluator("main", number=20, repeat=5)(x, w))
    for name in answers:
        np.testing.assert_array_equal(answers[name], answers["rules"])
        print(f"{name}: {seconds[name] * 1e6:.0f} us, the same bits")
    print("done")


if __name__ == "__main__":
    main()
