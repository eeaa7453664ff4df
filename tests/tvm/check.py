#!/usr/bin/env python3
"""Runs libraries that Reflex compiled, and modules that it printed, in TVM's own VM.

usage: check.py OURS THEIRS        (needs apache-tvm and numpy)

For every OURS/NAME.STAGE.so the calls of THEIRS/NAME.json (written by modules.py)
are made; values agree within rtol 1e-4, atol 1e-5, and calls fail where they failed. Every
OURS/NAME.STAGE.py, what Reflex prints of its graph for THEIRS/NAME.STAGE.py, is read and built by
TVM for the same calls. Prints a line per fault; the exit code is 1 when there is one.
"""
import glob
import json
import os
import sys

os.environ.setdefault("TVM_NUM_THREADS", "1")
import numpy as np
import tvm
from tvm import relax


def value(item, folder=None):
    if not isinstance(item, dict):
        return item
    if "data" in item or "file" in item:
        array = np.frombuffer(data(item, folder), item["dtype"]).reshape(item["shape"])
        return tvm.runtime.tensor(array.copy())
    if "extents" in item:
        return tvm.runtime.ShapeTuple(item["extents"])
    if "text" in item:
        return item["text"]
    return tvm.runtime.convert([value(each, folder) for each in item["tuple"]])


def data(item, folder):
    if "data" in item:
        return bytes.fromhex(item["data"])
    with open(f"{folder}/{item['file']}", "rb") as long:
        long.seek(item["at"])
        return long.read(item["size"])


def same(found, expected):
    """Why a value is not what was expected, or None."""
    if isinstance(expected, dict) and "data" in expected:
        expected, found = value(expected).numpy(), found.numpy()
        if found.dtype != expected.dtype or found.shape != expected.shape:
            return f"{found.dtype}{found.shape} is not {expected.dtype}{expected.shape}"
        wide = np.allclose(found.astype("float64"), expected.astype("float64"), 1e-4, 1e-5, True)
        return None if wide else f"{found} is not {expected}"
    if isinstance(expected, dict) and ("tuple" in expected or "extents" in expected):
        items = expected.get("tuple", expected.get("extents"))
        if len(found) != len(items):
            return f"{len(found)} items are not {len(items)}"
        return next(filter(None, map(same, found, items)), None)
    if isinstance(expected, dict):
        return None if str(found) == expected["text"] else f"{found} is not {expected}"
    return None if found == expected else f"{found} is not {expected}"


def call(vm, case, folder):
    """Why a call does not go as recorded, or None."""
    (expected,) = {json.dumps(each): each for each in case["answer"].values()}.values()
    try:
        found = vm[case["func"]](*[value(arg, folder) for arg in case["args"]])
    except Exception as error:  # noqa: BLE001: an answer like others
        return None if "error" in expected else f"{type(error).__name__}: {error}"
    if "error" in expected:
        return f"no {expected['error']}"
    return same(found, expected["result"])


def calls(vm, path):
    """What is wrong with the calls of a recorded module."""
    with open(path, encoding="utf-8") as cases:
        for at, case in enumerate(json.load(cases)):
            fault = call(vm, case, os.path.dirname(path))
            if fault:
                yield f"call {at}: {fault}"


def read(path):
    with open(path, encoding="utf-8") as script:
        return tvm.script.from_source(script.read())


def printed(ours, theirs):
    """What is wrong with a script that Reflex printed."""
    try:
        read(theirs)
    except tvm.error.DiagnosticError:
        return  # TVM does not read what it printed itself
    try:
        built = relax.build(read(ours), target="llvm", exec_mode="compiled")
    except Exception as error:  # noqa: BLE001
        yield f"{type(error).__name__}: {str(error).strip()[-400:]}"
        return
    yield from calls(relax.VirtualMachine(built, tvm.cpu()), theirs.rsplit(".", 2)[0] + ".json")


def main():
    ours, theirs = sys.argv[1:]
    faults = []
    for path in sorted(glob.glob(f"{ours}/*.so")):
        name = os.path.basename(path)[:-3]
        vm = relax.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())
        recorded = f"{theirs}/{name.rsplit('.', 1)[0]}.json"
        faults += [f"{name}.so, {fault}" for fault in calls(vm, recorded)]
    for path in sorted(glob.glob(f"{ours}/*.py")):
        name = os.path.basename(path)
        faults += [f"{name}, {fault}" for fault in printed(path, f"{theirs}/{name}")]
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
