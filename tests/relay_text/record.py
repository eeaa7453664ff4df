"""Records what TVM 0.16's Relay VM answers to the cases of this folder.

Each `cases/NAME.relay` is parsed, printed back in TVM's own layout without type comments, compiled and
run; `cases/NAME.json` gets inputs and outputs, or that the run failed. HHB_TVM is the folder of the
unpacked wheel hhb-tvm==3.2.3.

    HHB_TVM=... python tests/relay_text/record.py [NAME...]
"""

import json
import os
import re
import sys
import types
from pathlib import Path

os.environ["TVM_FFI"] = "ctypes"
sys.path.insert(0, os.environ["HHB_TVM"])
import numpy as np
import tvm


class Stub(types.ModuleType):
    """Importers of other formats, which want packages that are not needed here."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


sys.modules["tvm.relay.frontend"] = Stub("tvm.relay.frontend")
from tvm import relay
from tvm.relay.backend.vm import compile as compile_vm
from tvm.runtime.vm import VirtualMachine

TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu"
CASES = Path(__file__).parent / "cases"


def without_comments(text):
    return re.sub(r" ?/\*.*?\*/", "", text, flags=re.S).rstrip() + "\n"


def tensor(array):
    array = np.asarray(array)
    values = array.astype("float64") if array.dtype.kind == "f" else array
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": values.flatten().tolist()}


def leaves(value):
    if hasattr(value, "numpy"):
        return [tensor(value.numpy())]
    return [leaf for item in value for leaf in leaves(item)]


def inputs(module):
    random = np.random.RandomState(7)
    for param in module["main"].params:
        ty = param.checked_type
        shape = [int(d) if isinstance(d, (int, tvm.tir.IntImm)) else 4 for d in ty.shape]
        if ty.dtype.startswith("float"):
            # Variances are positive.
            yield np.round(random.uniform(0.1, 1.0, shape), 2).astype(ty.dtype)
        elif ty.dtype == "bool":
            yield random.uniform(size=shape) < 0.5
        else:
            yield random.randint(0, 4, shape).astype(ty.dtype)


def record(path):
    module = relay.parse(path.read_text())
    path.write_text(without_comments(module.astext(show_meta_data=True)))
    module = relay.transform.InferType()(module)
    args = list(inputs(module))
    case = {"inputs": [tensor(a) for a in args]}
    vm = VirtualMachine(compile_vm(module, target=TARGET), tvm.cpu())
    try:
        case["outputs"] = leaves(vm.run(*args))
    except tvm.TVMError:
        case["fails"] = True
    path.with_suffix(".json").write_text(json.dumps(case) + "\n")
    print(path.stem, "fails" if "fails" in case else [o["shape"] for o in case["outputs"]])


names = sys.argv[1:] or sorted(path.stem for path in CASES.glob("*.relay"))
for name in names:
    record(CASES / f"{name}.relay")
