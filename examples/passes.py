#!/usr/bin/env python3
"""Compiles a model with a pass of TVM, one written in Python, and an instrument.

usage: passes.py            (needs apache-tvm beside reflex)
"""
import numpy as np
import tvm
from tvm import relax

import reflex

MODEL = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        with R.dataflow():
            a = R.exp(x)
            b = R.exp(x)
            y = R.add(a, R.sigmoid(b))
            R.output(y)
        return y
"""


def common_subexpressions(graph: reflex.ir.Graph) -> reflex.ir.Graph:
    """TVM's own pass, on the module in the middle of our pipeline, as nodes."""
    module = tvm.ir.load_json(graph.save_json())
    return reflex.ir.load_json(tvm.ir.save_json(relax.transform.EliminateCommonSubexpr()(module)))


def tanh_for_sigmoid(script: str) -> str:
    """A pass in Python. It changes what the model computes, to show that it ran."""
    return script.replace("R.sigmoid", "R.tanh")


def main() -> None:
    counts: dict[str, int] = {}

    def count(when: str, name: str, script: reflex.Script) -> bool:
        if name == "common_subexpressions":
            counts[when] = script().count("R.exp(")
        return name != "simplify"  # it would find them too

    # Nothing of our own merges the two exponentials first.
    program = reflex.compile(
        MODEL,
        pipeline="default,fold_constants.max_bytes=4096",
        passes={
            "before:fold_constants": reflex.ir.NodePass(common_subexpressions),
            "after:fold_constants": tanh_for_sigmoid,
        },
        instrument=count,
    )
    print(f"{counts['before']} exponentials before, {counts['after']} after")
    x = np.arange(8, dtype="float32").reshape(2, 4) / 8
    y = program.session()["main"](x).numpy()
    np.testing.assert_allclose(y, np.exp(x) + np.tanh(np.exp(x)), rtol=1e-5)
    print("done")


if __name__ == "__main__":
    main()
