#!/usr/bin/env python3
"""The kinds by which TVM would fuse kernels.

usage: op_pattern.py OUT        (needs apache-tvm)

Legalises the operators of every OUT/NAME.py, writes each kernel of the module as OUT/NAME.NUMBER.kernel, and prints
a line for it: NAME.NUMBER, and the number that TVM's AnnotateTIROpPattern gives it.
"""
import glob
import os
import sys

import tvm
from tvm import relax


def kernels(path):
    with open(path, encoding="utf-8") as file:
        module = tvm.script.from_source(file.read(), check_well_formed=False)
    try:
        module = relax.transform.LegalizeOps()(module)
    except Exception:  # noqa: BLE001: operators that TVM does not build; kernels that are there count
        pass
    found = {var: func for var, func in module.functions.items() if isinstance(func, tvm.tirx.PrimFunc)}
    return tvm.IRModule(found)


for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.py"))):
    name = os.path.basename(path)[: -len(".py")]
    try:
        module = kernels(path)
        if not module.functions:
            continue
        text = module.script()
        # What is read again has indices of its own, as every text has.
        again = tvm.script.from_source(text, check_well_formed=False)
        annotated = relax.transform.AnnotateTIROpPattern()(again)
    except Exception as error:  # noqa: BLE001: texts that TVM does not read
        print(f"skipped {name}: {' '.join(str(error).split())[-120:]}", file=sys.stderr)
        continue
    for number, (var, func) in enumerate(annotated.functions.items()):
        with open(os.path.join(sys.argv[1], f"{name}.{number}.kernel"), "w", encoding="utf-8") as file:
            file.write(tvm.IRModule({var: again[var]}).script())
        print(f"{name}.{number}", int(func.attrs["op_pattern"]))
