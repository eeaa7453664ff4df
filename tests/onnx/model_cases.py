#!/usr/bin/env python3
"""Write ONNX's own tests of whole models as folders, for `reflex conformance`: those that PyTorch exported, and simple ones.

usage: model_cases.py OUT_DIR        (needs onnx and numpy)

OUT_DIR/<case>/model.onnx
OUT_DIR/<case>/test_data_set_<n>/{input_<i>.pb,output_<j>.pb}
"""
import pathlib
import shutil
import sys

from node_cases import write  # first: it seeds what the others draw at import
import onnx.backend.test.case.model as models
from onnx.backend.test import loader

# Folders of the package onnx, whose cases are files. `simple` has others, which it makes.
FOLDERS = ["pytorch-converted", "pytorch-operator", "simple"]


def main():
    out = pathlib.Path(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for case in models.collect_testcases():
        if case.kind == "simple":
            write(case, f"{out}/{case.name}")
    for folder in FOLDERS:
        for case in sorted(pathlib.Path(loader.DATA_DIR, folder).iterdir()):
            if case.is_dir() and not (out / case.name).exists():
                shutil.copytree(case, out / case.name)
    print(f"{sum(1 for _ in out.iterdir())} cases written")


main()
