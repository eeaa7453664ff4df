"""Models to quantize, and ONNX Runtime's answers for models.

    python quantize_cases.py make FOLDER
    python quantize_cases.py answer MODEL RUNS.npz ANSWERS.npz
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

random = np.random.default_rng(7)


def weight(name: str, *shape: int) -> onnx.TensorProto:
    """Weights of the spread that training leaves, a few of them far out."""
    values = random.standard_normal(shape).astype(np.float32) / np.sqrt(np.prod(shape[1:]) or 1)
    return numpy_helper.from_array(values.astype(np.float32), name)


def model(name: str, nodes: list, inputs: dict, constants: list, opset: int) -> onnx.ModelProto:
    """A model whose result is `y`."""
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", "columns"])
    graph = helper.make_graph(nodes, name, values, [result], constants, doc_string="kept")
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8 if opset < 21 else 10)


def dense(opset: int) -> onnx.ModelProto:
    """MatMul of three axes, Gemm both ways round, a weight that two nodes share, one that is computed."""
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w0"], ["h0"], name="first"),
        node("Add", ["h0", "b0"], ["h1"]),
        node("Relu", ["h1"], ["h2"]),
        node("MatMul", ["h2", "square"], ["h3"], name="shared"),
        node("MatMul", ["h3", "square"], ["h4"], name="again"),
        node("Reshape", ["h4", "flat"], ["rows"]),
        node("Gemm", ["rows", "w1", "b1"], ["g1"], name="turned", transB=1),
        node("Relu", ["g1"], ["g2"]),
        node("Gemm", ["g2", "w2"], ["g3"], name="straight"),
        node("Transpose", ["g3"], ["t"], perm=[1, 0]),
        node("MatMul", ["g3", "t"], ["y"], name="computed"),
    ]
    flat = numpy_helper.from_array(np.array([-1, 72], np.int64), "flat")
    constants = [weight("w0", 50, 72), weight("b0", 72), weight("square", 72, 72)]
    constants += [weight("w1", 40, 72), weight("b1", 40), weight("w2", 40, 33), flat]
    return model("dense", nodes, {"x": ["batch", 6, 50]}, constants, opset)


def convolutions(opset: int) -> onnx.ModelProto:
    """Strides, pads, dilations, groups, a residual sum, one axis of space."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0", "b0"], ["c0"], name="stem", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["c0"], ["r0"]),
        node("Conv", ["r0", "w1", "b1"], ["c1"], name="depthwise", group=16, pads=[1, 1, 1, 1]),
        node("Clip", ["c1", "zero", "six"], ["r1"]),
        node("Conv", ["r1", "w2"], ["c2"], name="pointwise"),
        node("Add", ["c2", "r0"], ["sum"]),
        node("Conv", ["sum", "w3", "b3"], ["c3"], name="dilated", dilations=[2, 2], auto_pad="VALID"),
        node("GlobalAveragePool", ["c3"], ["pooled"]),
        node("Flatten", ["pooled"], ["flat"]),
        node("Gemm", ["flat", "w4", "b4"], ["y"], name="head", transB=1),
    ]
    limits = [("zero", 0.0), ("six", 6.0)]
    constants = [numpy_helper.from_array(np.float32(v), n) for n, v in limits]
    constants += [weight("w0", 16, 3, 3, 3), weight("b0", 16), weight("w1", 16, 1, 3, 3)]
    constants += [weight("b1", 16), weight("w2", 16, 16, 1, 1), weight("w3", 24, 16, 3, 3)]
    constants += [weight("b3", 24), weight("w4", 10, 24), weight("b4", 10)]
    return model("convolutions", nodes, {"x": ["batch", 3, 20, 20]}, constants, opset)


def make(folder: Path) -> None:
    """Writes models with runs."""
    folder.mkdir(parents=True, exist_ok=True)
    shapes = {"dense": (3, 6, 50), "convolutions": (2, 3, 20, 20)}
    for opset in (13, 21):
        for make_model in (dense, convolutions):
            made = make_model(opset)
            name = f"{make_model.__name__}{opset}"
            if opset == 13:
                onnx.save(made, folder / f"{name}.onnx")
            else:
                onnx.save(made, folder / f"{name}.onnx", save_as_external_data=True,
                          location=f"{name}.data", size_threshold=64)
            shape = shapes[make_model.__name__]
            runs = {f"in.{k}.x": random.standard_normal(shape).astype(np.float32) for k in range(3)}
            np.savez(folder / f"{name}.npz", **runs)


def answer(path: str, runs: str, out: str) -> None:
    """Runs a model, checked by onnx, on inputs and writes them with the results."""
    made = onnx.load(path)
    onnx.checker.check_model(made, full_check=True)
    assert made.graph.doc_string == "kept"
    options = onnxruntime.SessionOptions()
    if any(node.op_type == "DequantizeLinear" and len(node.attribute) == 2 for node in made.graph.node):
        # Optimised, products with blocked weights quantize their activations to 8 bits too.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    arrays = dict(np.load(runs))
    for key in list(arrays):
        _, feed, name = key.split(".", 2)
        arrays[f"out.{feed}.y"] = session.run(["y"], {name: arrays[key]})[0]
    np.savez(out, **arrays)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    else:
        answer(*sys.argv[2:5])
