"""`reflex.quantize` writes what `reflex quantize` writes: python_quantize.py MODEL RUNS.npz METHOD FILE.onnx REPORT.json.

FILE and REPORT are the command's, of METHOD with the same runs.
"""
import json
import os
import sys
import tempfile

import numpy as np

import reflex
from common.expect import raises_exactly as raises


def main():
    model, archive, method, file, report = sys.argv[1:]
    arrays = dict(np.load(archive))
    count = 1 + max(int(key.split(".")[1]) for key in arrays if key.startswith("in."))
    runs = [{key.split(".", 2)[2]: value for key, value in arrays.items() if key.startswith(f"in.{run}.")}
            for run in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        written = os.path.join(folder, "quantized.onnx")
        quantized = reflex.quantize(model, written, method=method, calibration=runs)
        with open(written, "rb") as found, open(file, "rb") as wanted:
            assert found.read() == quantized.model == wanted.read()
    with open(report) as text:
        wanted = json.load(text)
    assert [layer.node for layer in quantized.layers] == [layer["node"] for layer in wanted["layers"]]
    for layer, other in zip(quantized.layers, wanted["layers"]):
        assert (layer.operator, layer.weight_sqnr_db) == (other["operator"], other["weight_sqnr_db"]), layer
        assert layer.output.sqnr_db == other["output"]["sqnr_db"], layer
    assert [kept.reason for kept in quantized.kept] == [kept["reason"] for kept in wanted["kept"]]
    assert quantized.outputs[0].max_abs == wanted["outputs"][0]["max_abs"] > 0
    # One run may stand alone, and without any nothing is measured.
    first = quantized.layers[0].node
    alone = reflex.quantize(model, method="weights4", calibration=runs[0], exclude=[first], block=16)
    assert first in [kept.node for kept in alone.kept] and alone.outputs
    unmeasured = reflex.quantize(model, operators=["MatMul", "Gemm", "Conv"], reduce_range=True)
    assert not unmeasured.outputs and all(layer.output is None for layer in unmeasured.layers)
    assert reflex.load(unmeasured.model, format="onnx").inputs == reflex.load(model).inputs
    assert "calibrate" in raises(ValueError, reflex.quantize, model, method="static")
    assert "weights4" in raises(ValueError, reflex.quantize, model, method="int7")
    assert "nothing to quantize" in raises(NotImplementedError, reflex.quantize, model, operators=[])
    print("done")


if __name__ == "__main__":
    main()
