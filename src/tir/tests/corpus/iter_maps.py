"""Detects iterator maps with TVM: lines of JSON with `inputs` (extents of i, j, k), `indices`, `predicate` and `bijective`.
Prints for each the extents of the indices, or null where TVM finds no map."""

import json
import sys

from tvm import tirx
from tvm.ir import Range
from tvm.sym import Analyzer, detect_iter_map
from tvm.sym.iter_affine_map import IterMapLevel


def extents(case):
    names = "ijk"[: len(case["inputs"])]
    scope = {name: tirx.Var(name, "int32") for name in names}
    scope["And"] = lambda *parts: tirx.all(*parts)
    domain = {scope[name]: Range(0, extent) for name, extent in zip(names, case["inputs"])}

    def expression(text):
        value = eval(text.replace("//", "%%").replace("%%", "//"), {}, scope)
        return tirx.IntImm("int32", value) if isinstance(value, int) else value

    predicate = expression(case["predicate"]) if case["predicate"] else True
    level = IterMapLevel.Bijective if case["bijective"] else IterMapLevel.Surjective
    found = detect_iter_map([expression(e) for e in case["indices"]], domain, predicate, level, False)
    if len(found.indices) == 0:
        return None
    result = []
    for one in found.indices:
        extent = 1
        for split in one.args:
            extent *= int(Analyzer().simplify(split.extent))
        result.append(extent)
    return result


for line in open(sys.argv[1], encoding="utf-8"):
    print(json.dumps(extents(json.loads(line))))
