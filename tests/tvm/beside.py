#!/usr/bin/env python3
"""Runs libraries of TVM's compiled mode in Reflex, without TVM in the process or beside its VM.

usage: beside.py FOLDER alone|tvm-first|reflex-first    (needs reflex, and TVM unless alone)

FOLDER is what modules.py wrote. Each NAME.compiled.so is open several times at once, and its
recorded calls give the recorded answers after each of them has gone. `tvm-first` and `reflex-first`
open it in TVM's VirtualMachine too, before or after. Prints a line per fault.
"""
import glob
import json
import os
import sys

os.environ.setdefault("TVM_NUM_THREADS", "1")
FOLDER, HOW = sys.argv[1:]
import numpy as np

if HOW != "alone":
    import tvm
    from tvm import relax
import reflex
import tvm_ffi


def array(item):
    return np.frombuffer(bytes.fromhex(item["data"]), item["dtype"]).reshape(item["shape"]).copy()


def value(item):
    if not isinstance(item, dict):
        return item
    if "data" in item:
        return tvm_ffi.from_dlpack(array(item))
    if "extents" in item:
        return tvm_ffi.Shape(tuple(item["extents"]))
    if "text" in item:
        return item["text"]
    return tvm_ffi.convert([value(each) for each in item["tuple"]])


def same(found, expected):
    if isinstance(expected, dict) and "data" in expected:
        found, expected = np.from_dlpack(found), array(expected)
        return found.dtype == expected.dtype and np.array_equal(found, expected, equal_nan=found.dtype.kind == "f")
    if isinstance(expected, dict) and ("tuple" in expected or "extents" in expected):
        items = expected.get("tuple", expected.get("extents"))
        return len(found) == len(items) and all(map(same, found, items))
    if isinstance(expected, dict):
        return str(found) == expected["text"]
    return found == expected


def faults(call, name, who):
    """What recorded calls of a module answer otherwise."""
    with open(f"{FOLDER}/{name}.json", encoding="utf-8") as cases:
        for at, case in enumerate(json.load(cases)):
            # NumPy gives arrays without elements strides that kernels of TVM refuse.
            if "file" in json.dumps(case["args"]) or '"data": ""' in json.dumps(case["args"]):
                continue
            expected = case["answer"]["compiled"]
            try:
                found = call(case["func"], *[value(arg) for arg in case["args"]])
            except Exception as error:  # noqa: BLE001: an answer like others
                if "error" not in expected:
                    yield f"{name}, call {at}, {who}: {type(error).__name__}: {error}"
                continue
            if "error" in expected or not same(found, expected["result"]):
                yield f"{name}, call {at}, {who}: {found}"


def opened_in_tvm(path):
    vm = relax.VirtualMachine(tvm.runtime.load_module(path), [tvm.cpu(0), tvm.cpu(1)])
    return lambda func, *args: vm[func](*args)


def opened(path):
    session = reflex.load(path).session()
    return session.call


def module(path, name):
    """The same library in several programs, which go one after another."""
    order = {"alone": "rr", "tvm-first": "trtr", "reflex-first": "rtrt"}[HOW]
    open_now = [({"r": opened, "t": opened_in_tvm}[each](path), each) for each in order]
    for call, who in open_now * 2:
        yield from faults(call, name, who)
    while open_now:
        open_now.pop(0)
        for call, who in open_now:
            yield from faults(call, name, who)


def main():
    paths = sorted(glob.glob(f"{FOLDER}/*.compiled.so"))
    found = [fault for path in paths for fault in module(path, os.path.basename(path).split(".")[0])]
    print("\n".join(found))
    with open("/proc/self/maps", encoding="utf-8") as maps:
        there = "libtvm_runtime" in maps.read()
    assert there == (HOW != "alone"), "TVM is in the process"
    assert len(paths) >= 30, paths
    if not found:
        print(f"{len(paths)} modules agree")


if __name__ == "__main__":
    main()
