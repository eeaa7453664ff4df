#!/usr/bin/env python3
"""Builds modules with TVM in both of its exec modes, and writes what TVM's own VM answers.

usage: modules.py OUT_DIR [--small]  (needs apache-tvm, apache-tvm-ffi, numpy and a C++ compiler)

For every module and mode OUT_DIR gets NAME.MODE.so, NAME.MODE.txt and NAME.MODE.stats (what TVM
prints about it), for every module NAME.json (calls with arguments and results or error kinds;
what is long among the arguments is in NAME.bin)
and, where TVMScript has a form for it, NAME.STAGE.py, what TVM prints of the module before and after
its pipelines (see script.py). Modules are in subjects.py; --small leaves out the real models. A folder that this script finished is left alone.
"""
import fcntl
import hashlib
import json
import math
import os
import sys

os.environ.setdefault("TVM_NUM_THREADS", "1")
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = ("modules.py", "subjects.py")


def fingerprint():
    digest = hashlib.sha256(os.environ.get("REFLEX_MODELS", "").encode())
    for name in SOURCES:
        with open(os.path.join(HERE, name), "rb") as source:
            digest.update(source.read())
    return digest.hexdigest()


def to_json(value):
    """A value as JSON: tensors as type, shape and bytes."""
    import tvm

    if isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value).tobytes()
        return {"dtype": str(value.dtype), "shape": list(value.shape), "data": data.hex()}
    if isinstance(value, tvm.runtime.Tensor):
        # Some types of elements are none of NumPy's; those smaller than a byte lie packed.
        dtype = tvm.DataType(value.dtype)
        size = (math.prod(value.shape) * dtype.bits * dtype.lanes + 7) // 8
        data = value._create_view((size,), "uint8").numpy().tobytes()
        return {"dtype": value.dtype, "shape": list(value.shape), "data": data.hex()}
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return {"text": str(value)}
    if isinstance(value, tvm.runtime.ShapeTuple):
        return {"extents": [int(extent) for extent in value]}
    return {"tuple": [to_json(item) for item in value]}


def to_tvm(value):
    import tvm

    if isinstance(value, np.ndarray):
        return tvm.runtime.tensor(value)
    if isinstance(value, Shape):
        return tvm.runtime.ShapeTuple(list(value))
    if isinstance(value, tuple):
        return tvm.runtime.convert([to_tvm(item) for item in value])
    return value


class Shape(tuple):
    """A shape among arguments."""


def kind(error):
    """The kind of an error as tvm-ffi names it."""
    return type(error).__name__


def run(vm, func, args):
    try:
        return {"result": to_json(vm[func](*[to_tvm(arg) for arg in args]))}
    except Exception as error:  # noqa: BLE001: every kind is an answer
        return {"error": kind(error)}


def argument(value, long):
    """An argument as JSON, its bytes in the file `long` if they are many."""
    if isinstance(value, Shape):
        return {"extents": list(value)}
    if isinstance(value, tuple):
        return {"tuple": [argument(item, long) for item in value]}
    if isinstance(value, np.ndarray) and value.nbytes > 1 << 16:
        place = {"file": os.path.basename(long.name), "at": long.tell(), "size": value.nbytes}
        long.write(np.ascontiguousarray(value).tobytes())
        return {"dtype": str(value.dtype), "shape": list(value.shape)} | place
    return to_json(value)


def export(subject, out):
    import tvm
    from tvm import relax

    calls, answers = [], {}
    for mode in subject.modes:
        built = subject.build(mode)
        path = f"{out}/{subject.name}.{mode}"
        built.export_library(path + ".so")
        for suffix, text in (("txt", built.as_text()), ("stats", built.stats())):
            with open(f"{path}.{suffix}", "w", encoding="utf-8") as file:
                file.write(text)
        if mode in subject.trusted:
            cpus = [tvm.cpu(index) for index in range(subject.cpus)]
            vm = relax.VirtualMachine(tvm.runtime.load_module(path + ".so"), cpus)
            answers[mode] = [run(vm, func, args) for func, args in subject.cases]
    with open(f"{out}/{subject.name}.bin", "wb") as long:
        for at, (func, args) in enumerate(subject.cases):
            given = [argument(arg, long) for arg in args]
            answer = {mode: answers.get(mode, answers[subject.trusted[0]])[at] for mode in subject.modes}
            calls.append({"func": func, "args": given, "answer": answer})
    with open(f"{out}/{subject.name}.json", "w", encoding="utf-8") as file:
        json.dump(calls, file)
    if subject.module is not None:
        for stage, module in subject.stages():
            with open(f"{out}/{subject.name}.{stage}.py", "w", encoding="utf-8") as file:
                file.write(module.script(show_meta=True))


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    with open(f"{out}/.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = f"{out}/.complete"
        if os.path.exists(done) and open(done, encoding="utf-8").read() == fingerprint():
            return
        for name in os.listdir(out):
            if name != ".lock":
                os.remove(f"{out}/{name}")
        import subjects

        names = []
        for subject in subjects.small() if "--small" in sys.argv else subjects.subjects():
            export(subject, out)
            names.append({"name": subject.name, "modes": list(subject.modes), "large": subject.large})
        with open(f"{out}/all.json", "w", encoding="utf-8") as file:
            json.dump(names, file)
        if "--small" not in sys.argv:
            with open(f"{out}/refused.txt", "w", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in subjects.refused())
        with open(done, "w", encoding="utf-8") as file:
            file.write(fingerprint())


if __name__ == "__main__":
    main()
