"""Loads an executable that Reflex wrote, and rebuilds it from its Python form.

usage: run_blob.py BLOB SCRIPT
BLOB is a serialized executable whose `main` takes (int, tensor) and returns a tuple;
prints what TVM's virtual machine answers, then whether SCRIPT (as_python of the same
executable) builds the same bytes.
"""
import os
import sys
import tempfile

os.environ.setdefault("TVM_NUM_THREADS", "1")
import numpy as np
import tvm
import tvm_ffi
from tvm import relax


def saved(executable):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "exec")
        executable.mod.write_to_file(path, "")
        with open(path, "rb") as data:
            return data.read()


with open(sys.argv[1], "rb") as data:
    blob = data.read()
load = tvm_ffi.get_global_func("ffi.Module.load_from_bytes.relax.VMExecutable")
vm = relax.VirtualMachine(relax.VMExecutable(load(blob)), tvm.cpu())
x = tvm.runtime.tensor(np.arange(6, dtype="float32").reshape(2, 3))
result = vm["main"](3, x)
print(int(result[0]), [int(d) for d in result[1]], result[2].numpy().tolist(), str(result[3]))

names = {"rx": relax, "tvm": tvm, "np": np}
with open(sys.argv[2], encoding="utf-8") as script:
    exec(script.read(), names)
print("same" if saved(names["ib"].get()) == blob else "different")
