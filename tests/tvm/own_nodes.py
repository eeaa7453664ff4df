#!/usr/bin/env python3
"""What TVM makes of modules that Reflex saved as nodes.

usage: own_nodes.py OUT        (needs apache-tvm)

For every OUT/NAME.json, a module as Reflex saved it, and OUT/NAME.py, the same module as Reflex prints it,
prints a line, the name and

  equal    TVM loads the nodes, and they are structurally equal to what it reads of the text
  free     the same, where free variables are mapped; what it reads of the text twice is not equal without
  loaded   TVM loads the nodes, and does not read the text

or what is wrong.
"""
import glob
import os
import sys

import tvm
import tvm_ffi


def load(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def words(what):
    return " ".join(str(what).split())[-400:]


def compare(path):
    try:
        nodes = tvm.ir.load_json(load(f"{path}.json"))
    except Exception as error:  # noqa: BLE001: whatever TVM raises
        return f"unloaded {words(error)}"
    if not isinstance(nodes, tvm.ir.IRModule):
        return f"no module but {type(nodes)}"
    try:
        text, again = (tvm.script.from_source(load(f"{path}.py"), check_well_formed=False) for _ in range(2))
    except Exception as error:  # noqa: BLE001
        return f"loaded {words(error)}"
    if tvm_ffi.structural_equal(nodes, text):
        return "equal"
    if tvm_ffi.structural_equal(nodes, text, map_free_vars=True) and not tvm_ffi.structural_equal(again, text):
        return "free"
    return f"differs {words(tvm_ffi.get_first_structural_mismatch(nodes, text))}"


def main():
    for path in sorted(glob.glob(f"{sys.argv[1]}/*.json")):
        path = path.removesuffix(".json")
        print(os.path.basename(path), compare(path), flush=True)


if __name__ == "__main__":
    main()
