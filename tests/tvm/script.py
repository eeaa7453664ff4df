#!/usr/bin/env python3
"""TVMScript of the modules of subjects.py, and what TVM says of it once Reflex has printed it.

usage: script.py emit OUT          writes OUT/NAME.STAGE.py, what TVM prints, and .json, the module
       script.py check OUT         compares OUT/NAME.STAGE.ours.py with the modules themselves
(needs apache-tvm and numpy)

STAGE is `before` or `after` TVM's pipeline for Relax. `check` prints a line for every file: its
name and `equal`, or `same` where TVM reads its own text to something else than the module it
printed, and ours to the same, or what is wrong.
"""
import glob
import os
import sys

import tvm
import tvm_ffi


class Shape(tuple):
    """A shape among arguments, which subjects.py imports."""


def stages():
    import subjects

    for subject in subjects.small():
        if subject.module is None:
            continue
        yield f"{subject.name}.before", subject.module
        yield f"{subject.name}.after", subject.after()


def emit(out):
    os.makedirs(out, exist_ok=True)
    for name, module in stages():
        with open(f"{out}/{name}.py", "w", encoding="utf-8") as file:
            file.write(module.script(show_meta=True))
        # The pipeline does not give the same module twice.
        with open(f"{out}/{name}.json", "w", encoding="utf-8") as file:
            file.write(tvm.ir.save_json(module))


def load(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def compare(path):
    module = tvm.ir.load_json(load(f"{path}.json"))
    try:
        found = tvm.script.from_source(load(f"{path}.ours.py"))
    except Exception as error:  # noqa: BLE001: whatever TVM's parser raises
        return "unread " + " ".join(str(error).split())[:200]
    if tvm_ffi.structural_equal(found, module):
        return "equal"
    try:
        if tvm_ffi.structural_equal(found, tvm.script.from_source(load(f"{path}.py"))):
            return "same"
    except Exception:  # noqa: BLE001
        pass
    where = tvm_ffi.get_first_structural_mismatch(found, module)
    return "differs " + " ".join(str(where).split())[:300]


def check(out):
    for path in sorted(glob.glob(f"{out}/*.json")):
        name = os.path.basename(path).removesuffix(".json")
        print(name, compare(f"{out}/{name}"), flush=True)


if __name__ == "__main__":
    {"emit": emit, "check": check}[sys.argv[1]](sys.argv[2])
