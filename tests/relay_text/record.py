"""Records what TVM 0.16's Relay VM answers to the cases of this folder.

Each `cases/NAME.relay` is parsed, printed back in TVM's own layout without type comments, compiled and
run; `cases/NAME.json` gets inputs and outputs, or that the run failed. `zoo/NAME.relay` is a network of
tvm.relay.testing (ZOO), with `zoo/NAME.json`, in which inputs are bounds of generated numbers. HHB_TVM is
the folder of the unpacked wheel hhb-tvm==3.2.3.

    HHB_TVM=... python tests/relay_text/record.py [NAME...]
    HHB_TVM=... python tests/relay_text/record.py --networks FOLDER    every network, into a folder
    HHB_TVM=... python tests/relay_text/record.py --prelude FOLDER     Relay's whole prelude
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
    "resnet_3d": lambda: small_resnet_3d(),
}

# The others of the collection, of a size that a test compiles. Two of them take one size of image.
LARGER = {
    "dcgan": lambda: network("dcgan", 1, oshape=(3, 64, 64), ngf=8, random_len=16),
    "densenet": lambda: network("densenet", 121, 10, 1, (3, 224, 224)),
    "inception_v3": lambda: network("inception_v3", 1, 10, (3, 299, 299)),
    "mlp": lambda: network("mlp", 2, 10, (1, 8, 8)),
    "mobilenet_nchw": lambda: network("mobilenet", 1, 10, (3, 32, 32)),
    "resnet_nchw": lambda: network("resnet", 1, 10, num_layers=20, image_shape=(3, 28, 28)),
    "resnet_bottleneck": lambda: network("resnet", 1, 10, num_layers=50, image_shape=(3, 64, 64)),
    "squeezenet_1_0": lambda: network("squeezenet", 1, 10, "1.0", (3, 64, 64)),
    "synthetic": lambda: network("synthetic"),
    "vgg": lambda: network("vgg", 1, 10, (3, 32, 32), num_layers=11),
    "vgg_bn": lambda: network("vgg", 1, 10, (3, 32, 32), num_layers=11, batch_norm=True),
}


def small_resnet_3d():
    """The three-dimensional network, whose own sizes begin at 33 million numbers."""
    build = importlib.import_module("tvm.relay.testing.resnet_3d").resnet
    net = build([1, 1], 2, [8, 8, 16], 10, (1, 3, 4, 16, 16), False)
    return importlib.import_module("tvm.relay.testing.init").create_workload(net)[0]


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
    record_module(relay.parse(path.read_text()), path)


def record_module(module, path):
    module = relay.transform.InferType()(module)
    path.write_text(without_comments(module.astext(show_meta_data=True)))
    # Its compiler fails on constructors that are passed on, in functions that nothing needs too.
    module = relay.transform.RemoveUnusedFunctions(["main"])(module)
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


def record_network(make, path):
    module = relay.transform.InferType()(make())
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
    print(path.stem, [(o["shape"], np.std(o["values"])) for o in case["outputs"]])


# A row of tensors whose shapes only the run knows, and lists of scalars.
PRELUDE_MAIN = """#[version = "0.0.5"]
def @main(%a: Tensor[(2, 3), float32], %b: Tensor[(3), float32], %n: int32) {
  let %rows = @tensor_array_unstack_tensor2_float32(%a);
  let %empty = @tensor_array_float32(3);
  let %one = @tensor_array_write_float32(%empty, 0, tensor1_float32(%b));
  let %two = @tensor_array_write_float32(%one, 1, @tensor_array_read_float32(%rows, 1));
  let %all = @tensor_array_write_float32(%two, 2, @tensor_array_read_float32(%rows, 0));
  let %square = @tensor_array_stack_float32(%all);
  let %long = @tensor_array_concat_float32(%all);
  let %list = Cons(%n, Cons(2, Cons(add(%n, 5), Nil)));
  (match? (%square) { tensor2_float32(%t) => { %t } },
   match? (%long) { tensor1_float32(%t) => { %t } },
   match? (@tensor_take_float32(%long, 1, add(%n, 4))) { tensor1_float32(%t) => { %t } },
   @length(%rows),
   @sum(@map(fn (%x: int32) -> int32 { multiply(%x, %n) }, %list)))
}
"""


def record_prelude(folder):
    importlib.import_module("tvm.relay.prelude").Prelude(module := tvm.IRModule())
    record_module(relay.parse(PRELUDE_MAIN, init_module=module), folder / "prelude.relay")


def main(args):
    if args[:1] == ["--networks"]:
        for name, make in {**ZOO, **LARGER}.items():
            record_network(make, Path(args[1]) / f"{name}.relay")
        return
    if args[:1] == ["--prelude"]:
        return record_prelude(Path(args[1]))
    for name in args or sorted(path.stem for path in CASES.glob("*.relay")) + sorted(ZOO):
        if name in ZOO and not (CASES / f"{name}.relay").exists():
            record_network(ZOO[name], NETWORKS / f"{name}.relay")
        else:
            record(CASES / f"{name}.relay")


main(sys.argv[1:])
