"""Detects the bounds of variables with TVM: lines of conditions over x, y and n, separated by commas. Prints for each the least
and the greatest value of x and of y, each for the values -5, 0 and 6 of n, or null where TVM finds none."""

import json
import sys

from tvm import tirx
from tvm.sym import Analyzer, detect_clip_bound

scope = {name: tirx.Var(name, "int64") for name in "xyn"}
x, y, n = (scope[name] for name in "xyn")


def at(bound, value):
    if bound is None:
        return None
    analyzer = Analyzer()
    analyzer.bind(n, tirx.IntImm("int64", value))
    return int(analyzer.simplify(bound))


for line in open(sys.argv[1], encoding="utf-8"):
    parts = eval(f"[{line.strip()}]", {}, scope)
    found = detect_clip_bound(tirx.all(*parts), [x, y])
    print(json.dumps([at(bound, value) for bound in found for value in (-5, 0, 6)] or None))
