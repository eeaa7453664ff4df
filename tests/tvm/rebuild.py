#!/usr/bin/env python3
"""Runs the scripts that `as_python` made, and compares what they build with what was printed.

usage: rebuild.py DIR       (NAME.py, NAME.txt and NAME.bin; needs apache-tvm and numpy)

The text of what is built is NAME.txt, and saved it is NAME.bin, byte for byte.
"""
import glob
import os
import sys
import tempfile

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
    built = names["ib"].get()
    assert built.as_text() == expected, f"{path} builds\n{built.as_text()}"
    with tempfile.TemporaryDirectory() as folder:
        saved = os.path.join(folder, "exec")
        built.mod.write_to_file(saved, "")
        with open(saved, "rb") as found, open(path[:-3] + ".bin", "rb") as bytes_:
            assert found.read() == bytes_.read(), f"{path} builds other bytes"
print(f"{len(scripts)} scripts")
assert len(scripts) >= 40
