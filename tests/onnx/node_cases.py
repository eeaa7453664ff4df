#!/usr/bin/env python3
"""Write ONNX's own node tests as folders, for `reflex conformance`.

usage: node_cases.py OUT_DIR        (needs onnx and numpy)

OUT_DIR/<case>/model.onnx
OUT_DIR/<case>/test_data_set_<n>/{input_<i>.pb,output_<j>.pb}
"""
import os
import random
import shutil
import sys

import numpy as np

np.random.seed(0)
random.seed(0)
import onnx  # noqa: E402  (the cases are made at import, after the seeds)
from onnx import TensorProto, numpy_helper  # noqa: E402
from onnx.backend.test import loader  # noqa: E402


def encode(value, info):
    if isinstance(value, TensorProto):
        return value.SerializeToString()
    kind = info.type.WhichOneof("value")
    make = {"map_type": numpy_helper.from_dict, "sequence_type": numpy_helper.from_list,
            "optional_type": numpy_helper.from_optional}.get(kind)
    made = make(value, info.name) if make else numpy_helper.from_array(np.asarray(value), info.name)
    return made.SerializeToString()


def write(case, folder):
    os.makedirs(folder)
    with open(f"{folder}/model.onnx", "wb") as file:
        file.write(case.model.SerializeToString())
    for n, (inputs, outputs) in enumerate(case.data_sets):
        data = f"{folder}/test_data_set_{n}"
        os.makedirs(data)
        graph = case.model.graph
        for kind, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
            for i, (value, info) in enumerate(zip(values, infos)):
                with open(f"{data}/{kind}_{i}.pb", "wb") as file:
                    file.write(encode(value, info))


def main():
    out = sys.argv[1]
    shutil.rmtree(out, ignore_errors=True)
    written = skipped = 0
    for case in loader.load_node_model_tests():
        try:
            write(case, f"{out}/{case.name}")
            written += 1
        except Exception as error:  # a value kind that cannot be written is not a case
            shutil.rmtree(f"{out}/{case.name}", ignore_errors=True)
            print(f"not written: {case.name}: {error!r}"[:160])
            skipped += 1
    print(f"{written} cases written, {skipped} not")


if __name__ == "__main__":
    main()
