"""`reflex.rpc` against `reflex serve --allow-code`: python_rpc.py MODEL ADDRESS.

MODEL is the library made from tests/filetests/relax/mlp.py.
"""
import os
import sys

import numpy as np
import tvm_ffi

import reflex
from reflex import rpc
from common.expect import raises

MODEL, ADDRESS = sys.argv[1:]
X = np.arange(16, dtype="float32").reshape(2, 8) / 16
W = (np.arange(40) % 7 - 3).astype("float32").reshape(8, 5)
Y = np.maximum(X @ W, 0) + 1


def local(array):
    return tvm_ffi.from_dlpack(array)


def files(session):
    size = os.path.getsize(MODEL)
    assert session.upload(MODEL) in (0, size)
    assert session.upload(MODEL, "again.so") == 0, "the server has the bytes"
    with open(MODEL, "rb") as file:
        assert session.download("again.so") == file.read()
    session.upload_bytes("note", b"text")
    assert session.download("note") == b"text"
    session.remove("note")
    raises(Exception, session.download, "note")
    raises(Exception, session.upload, MODEL, "../outside.so")


def modules_and_tensors(session):
    name = os.path.basename(MODEL)
    module = session.load_module(name)
    assert isinstance(module, tvm_ffi.Module) and module.kind == "rpc"
    assert not module.implements_function("nope")
    main = module["vm_load_executable"]()["main"]
    np.testing.assert_allclose(main(local(X), local(W)).numpy(), Y, rtol=1e-6)
    # Nothing travels but handles.
    there = session.load_module(name, results="there")["vm_load_executable"]("compiled")
    x, w = session.array(X), session.array(np.asfortranarray(W))
    y = there["main"](x, w)
    assert isinstance(y, rpc.RemoteTensor) and (y.dtype, y.shape) == ("float32", (2, 5))
    np.testing.assert_allclose(y.numpy(), Y, rtol=1e-6)
    x.write(2 * X)
    np.testing.assert_allclose(there["main"](x, w).numpy(), np.maximum(2 * X @ W, 0) + 1, rtol=1e-6)
    again = session.empty((2, 8))
    again.write(X)
    np.testing.assert_array_equal(again.numpy(), X)
    # A module that keeps its inputs there, with a number for a name.
    model = there.imports or session.load_module(name, "there")["main"]()
    model["set_input"](0, x)
    model["set_input"]("w", w)
    model["run"]()
    np.testing.assert_allclose(model["get_output"](0).numpy(), np.maximum(2 * X @ W, 0) + 1, rtol=1e-6)
    options = {"number": 2, "repeat": 3, "f_preproc": "cache_flush_cpu_non_first_arg"}
    times = session.time_evaluator(there, "main", **options)(x, w)
    assert len(times) == 3 and all(time > 0 for time in times)
    echo = session.get_function("tvm.rpc.server.ModuleGetFunction")
    assert echo(there, "main", False)(local(X), local(W)).shape == (2, 5)
    raises(AttributeError, session.get_function, "no.such.function")


def what_is_refused(session):
    with rpc.connect(ADDRESS) as other:
        foreign = other.array(X)
        module = session.load_module(os.path.basename(MODEL))["vm_load_executable"]()
        assert "another session" in raises(ValueError, module["main"], foreign, local(W))
        assert "another session" in raises(ValueError, other.time_evaluator, module, "main")
        assert raises(Exception, module["main"], local(X))
    raises(Exception, other.array, X)
    raises(ValueError, rpc.connect)
    raises(ValueError, rpc.connect, ADDRESS, tracker=ADDRESS)
    raises(Exception, rpc.connect, "127.0.0.1:1")


with rpc.connect(ADDRESS) as session:
    files(session)
    modules_and_tensors(session)
    what_is_refused(session)
assert reflex.rpc is rpc
print("done")
