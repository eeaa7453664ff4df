#!/usr/bin/env python3
"""Modules of subjects.py as JSON, pairs of them that differ in one node, and what tvm-ffi says of these.

usage: nodes.py OUT PAIRS        (needs apache-tvm and numpy)

OUT/modules.json is a list of texts of `tvm.ir.save_json`, before and after TVM's pipelines. OUT/pairs.json
is a list of [module, type, text, path]: the text is that of the module of this number with other data in a
node of this type, and the path that of the first difference by tvm-ffi, or null.
"""
import copy
import json
import os
import random
import signal
import sys

import script
import tvm
import tvm_ffi
from script import Shape  # noqa: F401: subjects.py takes it from the program

# Larger modules would make the pairs slow to compare, not different.
LARGEST = 20_000


def table():
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "../../src/node/table.in"), encoding="utf-8") as file:
        for line in file:
            key, _, *fields = line.split()
            yield key, {name: marks for name, _, marks in (field.partition(":") for field in fields)}


def alike(nodes, at, key):
    """Another node of the same type before node `at`."""
    found = [i for i, node in enumerate(nodes[:at]) if node["type"] == nodes[key]["type"] and i != key]
    return random.choice(found) if found else None


def mutated(nodes, at, fields):
    """Other data for a node, or None. References lead to nodes of the same type, as TVM does not check them."""
    kind, data = nodes[at]["type"], copy.deepcopy(nodes[at].get("data"))
    if kind == "int":
        return data + random.randint(1, 3)
    if kind == "bool":
        return not data
    if kind == "ffi.String":
        return data + "_other"
    if kind == "ffi.Array" and data:
        choice = random.randrange(3)
        if choice == 0:
            return data[:-1]
        if choice == 1:
            return data + data[:1]
        place = random.randrange(len(data))
        other = alike(nodes, at, data[place])
        return None if other is None else data[:place] + [other] + data[place + 1 :]
    # TVM's comparison of modules relies on maps that belong together.
    if isinstance(data, dict) and kind in fields and data and kind != "ir.IRModule":
        name = random.choice(list(data))
        marks = fields[kind].get(name, "")
        if "=" in marks:
            if not isinstance(data[name], (bool, int, float)):
                return None
            data[name] = not data[name] if isinstance(data[name], bool) else data[name] + 1
            return data
        # A list of other things is not checked when it is loaded, and read as what it should be.
        is_list = nodes[data[name]]["type"] in ("ffi.Array", "ffi.Map")
        other = None if is_list else alike(nodes, at, data[name])
        if other is not None:
            data[name] = other
            return data
    return None


def reached(graph):
    """The nodes that equality may look at."""
    seen, stack, fields = set(), [graph["root_index"]], dict(table())
    while stack:
        at = stack.pop()
        if at in seen:
            continue
        seen.add(at)
        kind, data = graph["nodes"][at]["type"], graph["nodes"][at].get("data")
        if kind in ("ffi.Array", "ffi.Map"):
            stack += data
        elif isinstance(data, dict):
            stack += [data[name] for name in data if "=" not in fields.get(kind, {}).get(name, "")]
    return sorted(seen)


def pairs(texts, count):
    fields = dict(table())
    small = [number for number, text in enumerate(texts) if len(text) <= LARGEST]
    graphs = {number: json.loads(texts[number]) for number in small}
    modules = {number: tvm.ir.load_json(texts[number]) for number in small}
    nodes = {number: reached(graph) for number, graph in graphs.items()}
    found = 0
    while found < count:
        number = random.choice(small)
        graph, at = graphs[number], random.choice(nodes[number])
        data = mutated(graph["nodes"], at, fields)
        if data is None:
            continue
        old = graph["nodes"][at]["data"]
        graph["nodes"][at]["data"] = data
        text = json.dumps(graph)
        graph["nodes"][at]["data"] = old
        said = in_child(lambda: compared(modules[number], text))
        if said is not None:
            found += 1
            yield [number, graph["nodes"][at]["type"], *said]


def compared(module, text):
    """What TVM made of a text (some fields follow from others), and the path of the first difference."""
    other = tvm.ir.load_json(text)
    mismatch = tvm_ffi.get_first_structural_mismatch(module, other, map_free_vars=True)
    assert tvm_ffi.structural_equal(module, other, map_free_vars=True) == (mismatch is None)
    return [tvm.ir.save_json(other), None if mismatch is None else str(mismatch[0])]


def in_child(work):
    """The result of a function, which runs in a process of its own: of a text that is no module TVM may raise
    an error or end the process. None where it did."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        try:
            with os.fdopen(writing, "w", encoding="utf-8") as out:
                json.dump(work(), out)
        except BaseException:  # noqa: BLE001: whatever TVM raises where no such module exists
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as said:
        text = said.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if status == 0 else None


def main():
    out, count = sys.argv[1], int(sys.argv[2])
    os.makedirs(out, exist_ok=True)
    random.seed(7)
    texts = [tvm.ir.save_json(module) for _, module in script.stages()]
    for name, content in (("modules", texts), ("pairs", list(pairs(texts, count)))):
        with open(os.path.join(out, f"{name}.json"), "w", encoding="utf-8") as file:
            json.dump(content, file)


if __name__ == "__main__":
    main()
