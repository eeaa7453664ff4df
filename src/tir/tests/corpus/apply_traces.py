"""Applies traces with TVM: a file of cases, each a printed kernel and `def apply_trace(sch)`, apart by lines of `# ====`."""

import __future__
import linecache
import sys
from typing import TypeVar

import tvm
from tvm.script import tirx as T

path = sys.argv[1]
with open(path, encoding="utf-8") as file:
    cases = file.read().split("# ====\n")
for number, text in enumerate(cases):
    one = f"{path}.{number}"
    linecache.cache[one] = (len(text), None, text.splitlines(True), one)
    scope = {"T": T, "TypeVar": TypeVar}
    exec(compile(text, one, "exec", flags=__future__.annotations.compiler_flag), scope)
    (function,) = [f for f in scope.values() if type(f).__name__ == "PrimFunc"]
    schedule = tvm.s_tir.Schedule(function)
    scope["apply_trace"](schedule)
    print(schedule.mod["main"].script())
    print("# ====")
