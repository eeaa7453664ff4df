#!/usr/bin/env python3
"""Runs the scripts that `as_python` made, and compares what they build with what was printed.

usage: rebuild.py DIR       (NAME.py and NAME.txt; needs apache-tvm and numpy)
"""
import glob
import os
import sys

os.environ.setdefault("TVM_NUM_THREADS", "1")
import numpy as np
import tvm
from tvm import relax

scripts = sorted(glob.glob(os.path.join(sys.argv[1], "*.py")))
for path in scripts:
    names = {"rx": relax, "tvm": tvm, "np": np}
    with open(path, encoding="utf-8") as script:
        exec(script.read(), names)
    with open(path[:-3] + ".txt", encoding="utf-8") as text:
        expected = text.read()
    built = names["ib"].get().as_text()
    assert built == expected, f"{path} builds\n{built}"
print(f"{len(scripts)} scripts")
assert len(scripts) >= 40
