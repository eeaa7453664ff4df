"""Records what TVM 0.16's Relay VM answers to the cases of this folder.

Each `cases/NAME.relay` is parsed, printed back in TVM's own layout without type comments, compiled and
run; `cases/NAME.json` gets inputs and outputs, or that the run failed. `zoo/NAME.relay` is a network of
tvm.relay.testing (ZOO), with `zoo/NAME.json`, in which inputs are bounds of generated numbers. HHB_TVM is
the folder of the unpacked wheel hhb-tvm==3.2.3.

    HHB_TVM=... python tests/relay_text/record.py [NAME...]
"""

import importlib
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


class Decorators(types.ModuleType):
    """pytest, of which TVM's networks import decorators for tests alone."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Decorators(name)

    def __call__(self, *args, **kwargs):
        return args[0] if args and callable(args[0]) else self

    def __iter__(self):
        return iter(())


sys.modules["pytest"] = Decorators("pytest")
from tvm import relay
from tvm.relay.backend.vm import compile as compile_vm
from tvm.runtime.vm import VirtualMachine

TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu"
CASES = Path(__file__).parent / "cases"
NETWORKS = Path(__file__).parent / "zoo"


def network(module, *args, **options):
    return importlib.import_module(f"tvm.relay.testing.{module}").get_workload(*args, **options)[0]


ZOO = {
    "dqn": lambda: network("dqn", 1, num_actions=4, image_shape=(4, 84, 84)),
    "unrolled_lstm": lambda: network("lstm", 4, 8),
    "mobilenet": lambda: network("mobilenet", 1, 10, (32, 32, 3), layout="NHWC"),
    "resnet": lambda: network("resnet", 1, 10, num_layers=8, image_shape=(28, 28, 3), layout="NHWC"),
    "squeezenet": lambda: network("squeezenet", 1, 10, "1.1", image_shape=(3, 64, 64)),
}


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


def bounds(name, shape):
    """Bounds for the numbers of a parameter that keep a deep network's values apart."""
    if name.endswith(("var", "gamma")):
        return 0.5, 1.5
    if name.endswith("weight") and len(shape) > 1:
        most = round(float(np.sqrt(3 * max(shape[0], shape[-1]) / np.prod(shape))), 4)
        return -most, most
    return -0.5, 0.5


def generated(at, shape, low, high):
    """The numbers of input `at` of a network; `generated` of tests/relay_text.rs has the same."""
    with np.errstate(over="ignore"):
        x = np.arange(1, np.prod(shape, dtype=int) + 1, dtype="uint64") * np.uint64(0x9E3779B97F4A7C15)
        x += np.uint64((at + 1) * 0xBF58476D1CE4E5B9 % 2**64)
        x ^= x >> np.uint64(32)
        x *= np.uint64(0x94D049BB133111EB)
    return (low + (high - low) * ((x >> np.uint64(40)) / 2.0**24)).astype("float32").reshape(shape)


def record_network(name):
    module = relay.transform.InferType()(ZOO[name]())
    path = NETWORKS / f"{name}.relay"
    path.write_text(without_comments(module.astext(show_meta_data=True)))
    case, args = {"inputs": []}, []
    for at, param in enumerate(module["main"].params):
        shape = [int(d) for d in param.checked_type.shape]
        low, high = bounds(param.name_hint, shape)
        assert param.checked_type.dtype == "float32"
        case["inputs"].append({"dtype": "float32", "shape": shape, "from": low, "to": high})
        args.append(generated(at, shape, low, high))
    vm = VirtualMachine(compile_vm(module, target=TARGET), tvm.cpu())
    case["outputs"] = leaves(vm.run(*args))
    path.with_suffix(".json").write_text(json.dumps(case) + "\n")
    print(name, [(o["shape"], np.std(o["values"])) for o in case["outputs"]])


names = sys.argv[1:] or sorted(path.stem for path in CASES.glob("*.relay")) + sorted(ZOO)
for name in names:
    if name in ZOO and not (CASES / f"{name}.relay").exists():
        record_network(name)
    else:
        record(CASES / f"{name}.relay")
