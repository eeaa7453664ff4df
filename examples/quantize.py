#!/usr/bin/env python3
"""Quantizes a float32 ONNX model in each way, and prints what that costs in accuracy, layer by layer.

usage: quantize.py MODEL.onnx [RUNS.npz]

RUNS has the inputs of typical runs as in.<k>.<input>; without it, one run of random floats is made up.
"""
import sys

import numpy as np

import reflex


def runs_of(program, archive):
    """The inputs of runs by name."""
    if archive is None:
        random = np.random.default_rng(0)
        fixed = lambda shape: [dim if isinstance(dim, int) else 1 for dim in shape]
        return [{i.name: random.standard_normal(fixed(i.shape)).astype(i.dtype) for i in program.inputs}]
    arrays = np.load(archive)
    runs = {}
    for key in arrays:
        kind, run, name = key.split(".", 2)
        if kind == "in":
            runs.setdefault(run, {})[name] = arrays[key]
    return list(runs.values())


def decibels(value):
    return "exact" if value is None else f"{value:.1f} dB"


def main():
    model = sys.argv[1]
    runs = runs_of(reflex.load(model), sys.argv[2] if len(sys.argv) > 2 else None)
    for method in ("dynamic", "static", "weights4"):
        quantized = reflex.quantize(model, method=method, calibration=runs)
        print(f"{method}: {len(quantized.model)} bytes, {len(quantized.kept)} nodes kept")
        for layer in quantized.layers:
            print(f"  {layer.node}: weights {decibels(layer.weight_sqnr_db)}, result {decibels(layer.output.sqnr_db)}")
        for output in quantized.outputs:
            print(f"  output {output.name}: {decibels(output.sqnr_db)}, largest error {output.max_abs:.3g}")
        # The quantized model is an ONNX file, of which any engine makes a program.
        quantized.save(model.removesuffix(".onnx") + f".{method}.onnx")
        assert reflex.load(quantized.model, format="onnx").inputs == reflex.load(model).inputs


if __name__ == "__main__":
    main()
