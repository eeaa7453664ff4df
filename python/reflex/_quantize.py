"""Quantizing float32 ONNX models: 8-bit integers, or 4-bit weights."""
from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import tvm_ffi

from ._arrays import TensorInfo, as_argument
from ._library import LIBRARY


@dataclass(frozen=True)
class Deviation:
    """The distance of a value in the quantized model from that in the float32 model, over all runs."""

    #: Name of the value.
    name: str
    #: Signal to quantization noise in decibels; `None` if the values are equal.
    sqnr_db: float | None
    #: Largest absolute difference.
    max_abs: float


@dataclass(frozen=True)
class QuantizedLayer:
    """A quantized layer."""

    #: Name of the node, or of its result if it has none.
    node: str
    #: Operator.
    operator: str
    #: Name of the weights.
    weight: str
    #: Number of weights.
    elements: int
    #: Signal to quantization noise of the weights in decibels; `None` if nothing was rounded.
    weight_sqnr_db: float | None
    #: The layer's result, where runs were given. It has the error of the layers before it too.
    output: Deviation | None


@dataclass(frozen=True)
class KeptNode:
    """A node with products that stays as it is."""

    #: Its name.
    node: str
    #: Operator.
    operator: str
    #: Why.
    reason: str


@dataclass(frozen=True)
class Quantized:
    """A quantized model, and its report: what became of each layer."""

    #: The ONNX file.
    model: bytes
    #: Quantized layers, in the order of the graph.
    layers: tuple[QuantizedLayer, ...]
    #: Nodes with products that stay as they are.
    kept: tuple[KeptNode, ...]
    #: The model's results, where runs were given.
    outputs: tuple[Deviation, ...]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the ONNX file.

        >>> quantized.save("model.int8.onnx")          # doctest: +SKIP
        """
        with open(path, "wb") as file:
            file.write(self.model)


def quantize(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    method: Literal["dynamic", "static", "weights4"] = "dynamic",
    calibration: Mapping[str, Any] | Iterable[Mapping[str, Any]] = (),
    exclude: Iterable[str] = (),
    operators: Iterable[str] | None = None,
    block: int = 32,
    reduce_range: bool = False,
    device: str = "cpu",
    threads: int = 1,
) -> Quantized:
    """Quantizes the MatMul, Gemm and Conv of a float32 ONNX model that have constant weights, as `reflex quantize`
    does, and returns the model, which is standard ONNX, with what became of each layer; `output` is a file
    that it is written to.

    `method` is "dynamic" (8-bit weights; activations are quantized in each call), "static" (8-bit weights; ranges
    of activations are those of `calibration`) or "weights4" (4-bit weights in blocks of `block`; activations stay
    float32). `calibration` has the inputs of runs by name, of one run or of several; with it the report says how far each
    layer's result is from the float32 one. `exclude` names nodes that stay as they are, `operators` those to
    quantize among MatMul, Gemm and Conv (None is all three). `reduce_range` makes 7-bit weights, for engines whose
    8-bit products saturate on CPUs without VNNI. The runs are made on `device` with `threads`.

    >>> quantized = reflex.quantize("model.onnx", method="static", calibration=[{"x": x}])  # doctest: +SKIP
    >>> [(layer.node, layer.output.sqnr_db) for layer in quantized.layers]                  # doctest: +SKIP
    [('/head/MatMul', 41.3)]
    >>> reflex.quantize("no/such.onnx")
    Traceback (most recent call last):
        ...
    FileNotFoundError: no/such.onnx: No such file or directory (os error 2)
    """
    runs = [calibration] if isinstance(calibration, Mapping) else list(calibration)
    feeds = [{name: _tensor(name, value) for name, value in run.items()} for run in runs]
    names = None if operators is None else list(operators)
    # The options of `load` that have no meaning here are left out.
    options = (device, threads, *[None] * 10)
    data, text = LIBRARY["quantize"](
        os.fspath(model), *options, method, feeds, list(exclude), names, block, reduce_range
    )
    report = json.loads(str(text))
    layers = tuple(
        QuantizedLayer(**{**layer, "output": layer["output"] and Deviation(**layer["output"])})
        for layer in report["layers"]
    )
    kept = tuple(KeptNode(**node) for node in report["kept"])
    outputs = tuple(Deviation(**value) for value in report["outputs"])
    quantized = Quantized(bytes(data), layers, kept, outputs)
    if output is not None:
        quantized.save(output)
    return quantized


def _tensor(name: str, value: Any) -> Any:
    """An array that the library reads within the call."""
    given = as_argument(np.ascontiguousarray(value), TensorInfo(name, None, ()))
    return tvm_ffi.from_dlpack(given)
