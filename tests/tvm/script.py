#!/usr/bin/env python3
"""TVMScript of the modules of subjects.py, and what TVM says of it once Reflex has printed it.

usage: script.py emit OUT          writes OUT/NAME.STAGE.py, what TVM prints, and .json, the module
       script.py check OUT         compares OUT/NAME.STAGE.ours.py with the modules themselves
(needs apache-tvm and numpy)

STAGE is `before` or `after` TVM's pipeline for Relax, `lowered` by its pipeline for kernels, or
that pipeline's end, `packed`. `check` prints a line for every file, its name and

  equal    TVM reads ours to the very module
  same     TVM reads ours to what it reads its own text to, which is not the module
  text     TVM reads neither, and they are the same text
  kernels  TVM reads neither; their kernels are the same text

or what is wrong. Comments are no text.
"""
import glob
import json
import os
import sys

import tvm
import tvm_ffi


class Shape(tuple):
    """A shape among arguments, which subjects.py imports."""


def stages():
    import subjects

    for subject in subjects.subjects():
        if subject.module is None:
            continue
        for stage, module in subject.stages():
            yield f"{subject.name}.{stage}", module


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


def code(text):
    """The lines of a text without comments and metadata, and the metadata."""
    start, end = 'metadata = tvm.ir.load_json("""', '""")'
    metadata = None
    if start in text:
        before, rest = text.split(start, 1)
        inside, after = rest.split(end, 1)
        # A quote may be escaped or not.
        metadata, text = json.loads(inside.replace('\\"', '"').replace("\\\\", "\\")), before + after
    return [line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")], metadata


def kernels(lines):
    """The lines that belong to kernels."""
    inside = False
    for line in lines:
        if line.startswith("    @"):
            inside = line.startswith("    @T.prim_func")
        if inside:
            yield line


def unread(ours, theirs, error):
    """What to say of a text that TVM refuses for `error`."""
    try:
        tvm.script.from_source(theirs)
    except Exception:  # noqa: BLE001: whatever TVM's parser raises
        (ours, ours_data), (theirs, theirs_data) = code(ours), code(theirs)
        if ours_data == theirs_data and ours == theirs:
            return "text"
        if ours_data == theirs_data and list(kernels(ours)) == list(kernels(theirs)):
            return "kernels"
    return "unread " + " ".join(str(error).split())[:200]


def compare(path):
    module = tvm.ir.load_json(load(f"{path}.json"))
    ours, theirs = load(f"{path}.ours.py"), load(f"{path}.py")
    try:
        found = tvm.script.from_source(ours)
    except Exception as error:  # noqa: BLE001
        return unread(ours, theirs, error)
    if tvm_ffi.structural_equal(found, module):
        return "equal"
    try:
        if tvm_ffi.structural_equal(found, tvm.script.from_source(theirs)):
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
