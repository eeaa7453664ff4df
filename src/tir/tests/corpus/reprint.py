"""Reads one file of printed loop IR with TVM and prints what TVM understood."""

import __future__
import linecache
import sys
from typing import TypeVar

from tvm.script import ir as I
from tvm.script import tirx as T

path = sys.argv[1]
with open(path, encoding="utf-8") as file:
    text = file.read()
scope = {"T": T, "I": I, "TypeVar": TypeVar}
# TVM finds the source of a decorated function through the line cache.
linecache.checkcache(path)
# Symbolic dimensions in signatures are for TVM to read, not for Python to evaluate.
exec(compile(text, path, "exec", flags=__future__.annotations.compiler_flag), scope)
functions = [f for f in scope.values() if type(f).__name__ == "PrimFunc"]
for function in functions:
    print(function.script())
