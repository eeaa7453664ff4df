"""TVM's RPC client against `reflex serve`, `reflex tracker` and `reflex rpc-pipe`, and TVM's server for
our client.

    rpc.py client HOST PORT FOLDER     a session with everything, on a server with --allow-code
    rpc.py tracker HOST PORT KEY       a server from a tracker
    rpc.py measure HOST PORT KEY       MetaSchedule's runner measures a candidate at a server of a tracker
    rpc.py modules HOST PORT FOLDER    the executables of modules.py, against what TVM answers without RPC
    rpc.py pipe SCRIPT FOLDER          PopenSession
    rpc.py timeout HOST PORT           a session that is too long
    rpc.py library FOLDER              builds a library, and prints its path
    rpc.py server                      TVM's server; prints its port, ends with standard input
"""

import gc
import json
import os
import sys
import tempfile
import time

import numpy as np
import tvm
from tvm import relax, rpc
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Twice:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32")):
        with R.dataflow():
            y = R.add(x, x)
            R.output(y)
        return y

    @R.function
    def pair(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            y = R.add(x, x)
            z = R.multiply(x, x)
            w = (y, z)
            R.output(w)
        return w


def library(folder):
    path = os.path.join(folder, "twice.so")
    tvm.compile(Twice, target="llvm").export_library(path)
    print(path, flush=True)
    return path


X = np.arange(6, dtype="float32").reshape(2, 3)


def virtual_machine(session, path):
    session.upload(path)
    name = os.path.basename(path)
    vm = relax.VirtualMachine(session.load_module(name), session.cpu())
    x = tvm.runtime.tensor(X, session.cpu())
    np.testing.assert_array_equal(x.numpy(), X)
    vm.set_input("main", x)
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs("main").numpy(), X * 2)
    np.testing.assert_array_equal(vm["main"](x).numpy(), X * 2)
    vm.set_input("pair", x)
    vm.invoke_stateful("pair")
    y, z = vm.get_outputs("pair")
    np.testing.assert_array_equal(y.numpy(), X * 2)
    np.testing.assert_array_equal(z.numpy(), X * X)
    vm.save_function("main", "saved", x)
    np.testing.assert_array_equal(vm["saved"]().numpy(), X * 2)
    times = vm.time_evaluator("main", session.cpu(), number=3, repeat=2)(x).results
    assert len(times) == 2 and min(times) > 0, times
    return vm


def error_of(function, *args):
    try:
        function(*args)
    except Exception as error:  # noqa: BLE001, the class is TVM's choice
        return f"{type(error).__name__}: {error}"
    raise AssertionError("it did not fail")


def client(host, port, folder):
    session = rpc.connect(host, int(port), session_timeout=60)
    session.upload(bytearray(b"abc"), "a.bin")
    assert session.download("a.bin") == b"abc"
    assert "a.bin" in session.listdir("")
    session.remove("a.bin")
    vm = virtual_machine(session, library(folder))
    for part, error in [
        ("absent.so", error_of(session.load_module, "absent.so")),
        ("a.bin", error_of(session.download, "a.bin")),
        ("separators", error_of(session.upload, bytearray(b"x"), "../escape")),
        ("nope", error_of(lambda: vm["nope"])),
    ]:
        assert part in error, error
    assert session.get_function("reflex.rpc.target")()
    large = np.random.rand(1 << 20).astype("float32")
    there = tvm.runtime.tensor(large, session.cpu())
    np.testing.assert_array_equal(there.numpy(), large)
    print("client ok")


def tracker(host, port, key):
    session = rpc.connect_tracker(host, int(port))
    for _ in range(2):
        remote = session.request(key, priority=2, session_timeout=30)
        remote.upload(bytearray(b"abc"), "a.bin")
        assert remote.download("a.bin") == b"abc"
        del remote
    assert key in session.text_summary()
    print("tracker ok")


def measure(host, port, key):
    from tvm.s_tir import meta_schedule as ms
    from tvm.s_tir.meta_schedule.arg_info import TensorInfo
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def double(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        for i in range(64):
            with T.sblock("double"):
                v = T.axis.spatial(64, i)
                y[v] = x[v] * T.float32(2)

    module = tvm.IRModule({"main": double.with_attr("global_symbol", "main")})
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "candidate.so")
    tvm.compile(module, target="llvm").export_library(path)
    runner = ms.runner.RPCRunner(
        rpc_config=ms.runner.RPCConfig(host, int(port), key, session_timeout_sec=60),
        evaluator_config=ms.runner.EvaluatorConfig(number=3, repeat=2, min_repeat_ms=1),
    )
    info = TensorInfo("float32", [64])
    (future,) = runner.run([ms.runner.RunnerInput(path, "cpu", [info, info])])
    result = future.result()
    assert result.error_msg is None, result.error_msg
    assert len(result.run_secs) == 2 and all(float(s) > 0 for s in result.run_secs)
    print("measure ok")


def array_of(value, folder):
    """A tensor among a call's arguments, None for another value."""
    if not isinstance(value, dict) or "dtype" not in value:
        return None
    if "file" in value:
        with open(os.path.join(folder, value["file"]), "rb") as file:
            file.seek(value["at"])
            data = file.read(value["size"])
    else:
        data = bytes.fromhex(value["data"])
    return np.frombuffer(data, value["dtype"]).reshape(value["shape"])


def flat(value):
    return [part for item in value for part in flat(item)] if isinstance(value, list) else [value]


def expected(value):
    """The tensors of an answer, None if something else is in it."""
    if isinstance(value, dict) and "tuple" in value:
        parts = [expected(item) for item in value["tuple"]]
        return None if None in parts else [part for each in parts for part in each]
    return [value["data"]] if isinstance(value, dict) and "data" in value else None


def outputs(vm, func):
    found = vm.get_outputs(func)
    listed = lambda value: [listed(item) for item in value] if isinstance(value, (tuple, list)) else value
    return flat(listed(found))


def modules(host, port, folder):
    with open(os.path.join(folder, "all.json"), encoding="utf-8") as file:
        named = [(each["name"], mode) for each in json.load(file) if not each["large"] for mode in each["modes"]]
    counts = {"executables": 0, "results": 0, "errors": 0, "left": 0}
    for name, mode in named:
        # A client has few sessions: the last one ends before the next begins.
        vm = session = args = got = None
        gc.collect()
        with open(os.path.join(folder, name + ".json"), encoding="utf-8") as file:
            calls = json.load(file)
        session = rpc.connect(host, int(port), session_timeout=120)
        session.upload(os.path.join(folder, f"{name}.{mode}.so"))
        try:
            vm = relax.VirtualMachine(session.load_module(f"{name}.{mode}.so"), session.cpu())
        except Exception as error:  # noqa: BLE001
            # A module for several devices: TVM's client has one of a session.
            assert "cpu" in str(error), f"{name}.{mode}: {error}"
            counts["left"] += len(calls)
            continue
        counts["executables"] += 1
        for call in calls:
            answer = call["answer"][mode]
            args = [array_of(arg, folder) if isinstance(arg, dict) else arg for arg in call["args"]]
            right = None if "error" in answer else expected(answer["result"])
            if any(arg is None for arg in args) or "result" in answer and right is None:
                counts["left"] += 1
                continue
            args = [tvm.runtime.tensor(a, session.cpu()) if isinstance(a, np.ndarray) else a for a in args]
            try:
                vm.set_input(call["func"], *args)
                vm.invoke_stateful(call["func"])
                got = [part.numpy().tobytes().hex() for part in outputs(vm, call["func"])]
            except Exception:  # noqa: BLE001: every kind is an answer
                assert "error" in answer, f"{name}.{mode} {call['func']}: {sys.exc_info()[1]}"
                counts["errors"] += 1
                continue
            assert got == right, f"{name}.{mode} {call['func']}"
            counts["results"] += 1
    print(json.dumps(counts))


def pipe(script, folder):
    virtual_machine(rpc.PopenSession(script), library(folder))
    print("pipe ok")


def timeout(host, port):
    session = rpc.connect(host, int(port), session_timeout=1)
    time.sleep(2.5)
    error = error_of(session.upload, bytearray(b"x"), "x")
    print(error.splitlines()[0])


def server():
    serving = rpc.Server("127.0.0.1", port=29090, port_end=29190, silent=True)
    print(serving.port, flush=True)
    sys.stdin.read()
    serving.terminate()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
