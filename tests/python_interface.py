"""The Python module as its users meet it: python_interface.py MODEL SOURCE.

MODEL is the library made from SOURCE, tests/filetests/relax/mlp.py.
"""
import inspect
import os
import pickle
import sys
import tempfile
import threading

import ml_dtypes
import numpy as np
import tvm_ffi

import reflex
from common.expect import raises_exactly as raises

MODEL, SOURCE = sys.argv[1:]
X = np.arange(16, dtype="float32").reshape(2, 8) / 16
W = (np.arange(40) % 7 - 3).astype("float32").reshape(8, 5)
Y = np.maximum(X @ W, 0) + 1


def script(folder, text):
    """Writes a module of one function and loads it."""
    path = os.path.join(folder, "model.py")
    with open(path, "w") as file:
        file.write("@I.ir_module\nclass Module:\n    @R.function\n" + text)
    return reflex.load(path)


def packed_functions(session):
    """The function behind one of the program converts nothing."""
    main = session["main"]
    assert np.array_equal(main.packed(X, W).numpy(), Y)
    raises(TypeError, main.packed, X, w=W)
    session.save_function("main", "of_w", W)
    assert np.array_equal(session["of_w"].packed(X).numpy(), Y)


def arrays_that_numpy_takes(session):
    """Every way to hold the same numbers gives the same result, through every method."""
    frozen = X.copy()
    frozen.flags.writeable = False
    padded = np.zeros((2, 8), dtype=[("skip", "u1"), ("x", "<f4")])
    padded["x"] = X
    wide = np.zeros((2, 16), "float32")
    wide[:, ::2] = X
    unaligned = np.frombuffer(bytearray(b"!" + X.tobytes()), "float32", offset=1).reshape(2, 8)
    same = {
        "column-major": np.asfortranarray(X),
        "transposed": np.ascontiguousarray(X.T).T,
        "every second": wide[:, ::2],
        "backwards": np.ascontiguousarray(X[:, ::-1])[:, ::-1],
        "read-only": frozen,
        "big-endian": X.astype(">f4"),
        "field of records": padded["x"],
        "unaligned": unaligned,
        "lists": X.tolist(),
        "tuple of arrays": tuple(X),
        "memory": memoryview(X),
        "tensor": tvm_ffi.from_dlpack(X),
        "strided tensor": tvm_ffi.from_dlpack(np.asfortranarray(X)),
        "result": reflex.load(MODEL).session() and tvm_ffi.from_dlpack(X),
    }
    f = session["main"]
    for what, x in same.items():
        for y in (f(x, W), f(x, w=W), session.call("main", x, W), session.run({"w": W, "x": x})["output0"]):
            np.testing.assert_allclose(y, Y, rtol=1e-6, err_msg=what)
        session.set_input("main", x, W)
        session.invoke_stateful("main")
        np.testing.assert_allclose(session.get_outputs("main"), Y, rtol=1e-6, err_msg=what)
        assert session.warm_up("main", x, W) > 0
        assert len(session.time_evaluator("main", number=1)(x, W)) == 1
        np.testing.assert_allclose(session.profile("main", x, W)[1], Y, rtol=1e-6, err_msg=what)
        session.save_function("main", "of_x", W)
        np.testing.assert_allclose(session["of_x"](x), Y, rtol=1e-6, err_msg=what)
    for w in (np.asfortranarray(W), W.tolist()):
        session.save_function("main", "of_w", w)
        np.testing.assert_allclose(session.call("of_w", X), Y, rtol=1e-6)


def results(session):
    y = session["main"](X, W)
    assert isinstance(y, (reflex.Tensor, tvm_ffi.Tensor))
    assert type(np.asarray(y)) is np.ndarray and np.asarray(y).dtype == "float32"
    assert np.shares_memory(np.asarray(y), y.numpy())
    assert not np.shares_memory(np.array(y), y.numpy())
    assert np.asarray(y, dtype="float64").dtype == "float64"
    raises(ValueError, np.asarray, y, dtype="float64", copy=False)
    np.testing.assert_allclose(np.asarray(y), Y, rtol=1e-6)
    assert float((np.asarray(y) - y).sum()) == 0


def wrong_arguments(session):
    f = session["main"]
    assert "expects 2 arguments" in raises(RuntimeError, f, X)
    assert "expects 2 arguments" in raises(RuntimeError, f, X, W, W)
    assert "no input 'v'" in raises(TypeError, session.run, {"x": X, "v": W})
    assert "no value for its input 'x'" in raises(TypeError, f, w=W)
    assert "x: float32[n, 8]" in raises(TypeError, f, None, W)
    assert "complex128" in raises(TypeError, f, X, [[1j]])
    assert "object" in raises(TypeError, f, np.array([None]), W)
    assert "main" in raises(KeyError, lambda: session["nope"])
    assert "nope" in raises(AttributeError, session.call, "nope", X)
    # What an array's type is stays the caller's business.
    raises(ValueError, f, X.astype("float64"), W)
    # An error of a function that the program calls is no reason to call again.
    target = np.asfortranarray(np.zeros((2, 5), "float32"))
    session.set_input("main", X, W)
    assert "strided" in raises(ValueError, session.bind_outputs, "main", target)


def scalars():
    with tempfile.TemporaryDirectory() as folder:
        program = script(folder, """    def main(x: R.Tensor((), "float32"), n: R.Tensor((), "int64")) -> R.Tensor((), "float32"):
        y: R.Tensor((), "float32") = R.add(x, R.astype(n, "float32"))
        return y
""")
        f = program.session()["main"]
        for x, n in ((1.5, 2), (np.float32(1.5), np.int64(2)), (np.array(1.5, "f4"), np.array(2)), (1.5, True)):
            assert float(f(x, n).numpy()) == 1.5 + float(n), (x, n)
        assert "n: int64[]: got float64" in raises(TypeError, f, 1.5, 2.5)
        raises(OverflowError, f, 1.5, 2**63)
        raises(TypeError, f, 1.5, 2**70)


def foreign_types():
    with tempfile.TemporaryDirectory() as folder:
        program = script(folder, """    def main(x: R.Tensor((3,), "bfloat16")) -> R.Tensor((3,), "bfloat16"):
        y: R.Tensor((3,), "bfloat16") = R.add(x, x)
        return y
""")
        x = np.array([1, 2, 3.5], ml_dtypes.bfloat16)
        y = program.session()["main"](x)
        assert y.numpy().dtype == x.dtype and (np.asarray(y) == x + x).all(), y.numpy()


def values_of_data_types():
    """Values of Relay's data types are tuples of the constructor's number and the fields."""
    text = """#[version = "0.0.5"]
type List[A] {
  Cons(A, List[A]),
  Nil,
}

def @main(%xs: List[Tensor[(2), float32]]) -> List[Tensor[(2), float32]] {
  match (%xs) {
    Cons(%x: Tensor[(2), float32], %rest: List[Tensor[(2), float32]]) => {
      %0 = add(%x, %x);
      %1 = @main(%rest);
      Cons(%0, %1)
    },
    Nil => {
      Nil
    },
  }
}
"""
    given = (0, X[0, :2], (0, X[1, :2], (1,)))
    for mode in ("bytecode", "compiled", "tiered"):
        session = reflex.load(text.encode(), format="relay").session(mode)
        number, first, (_, second, (nil,)) = session["main"](given)
        assert (number, nil) == (0, 1)
        assert (np.asarray(first) == 2 * X[0, :2]).all() and (np.asarray(second) == 2 * X[1, :2]).all()
        assert "ffi.Array" in raises(TypeError, session["main"], X)
    # An executable of the Relay virtual machine does not say types.
    unknown = reflex.TensorInfo("xs", None, ())
    assert reflex._arrays.as_argument(given, unknown) is given
    assert reflex._arrays.as_argument([1.0, 2.0], unknown).dtype == "float64"


def message(number, *parts):
    """A field of a protobuf message: text, a number, or a message of fields."""
    def varint(value):
        return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)

    if parts and isinstance(parts[0], int):
        return varint(number << 3) + varint(parts[0])
    data = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    return varint(number << 3 | 2) + varint(len(data)) + data


def onnx_model(domain, node, inputs, outputs):
    """The file of a model: names and types of its inputs, names of its outputs."""
    values = [message(11, message(1, name), message(2, kind)) for name, kind in inputs.items()]
    values += [message(12, message(1, name)) for name in outputs]
    opsets = [message(8, message(1, name), message(2, version)) for name, version in {"": 18, **({domain: 1} if domain else {})}.items()]
    return message(1, 8) + message(7, message(1, *node), message(2, "g"), *values) + b"".join(opsets)


def maps_and_sequences():
    """Dictionaries are maps, lists of arrays sequences, by position and by name."""
    words = message(5, message(1, "string_vocabulary"), message(20, 8), message(9, "b"), message(9, "a"))
    node = [message(1, "x"), message(2, "y"), message(4, "DictVectorizer"), message(7, "ai.onnx.ml"), words]
    number = message(1, message(1, 1), message(2))
    kind = message(5, message(1, 8), message(2, number))
    model = onnx_model("ai.onnx.ml", node, {"x": kind}, ["y"])
    for mode in ("bytecode", "compiled", "tiered"):
        session = reflex.load(model, format="onnx").session(mode)
        main = session["main"]
        for given in ({"a": 1.5, "c": 3}, {np.str_("a"): np.float32(1.5)}, tvm_ffi.convert({"a": 1.5})):
            assert main(given).numpy().tolist() == [[0, 1.5]], given
            assert main(x=given).numpy().tolist() == [[0, 1.5]], given
        assert session.run({"x": {"b": 2}})["output0"].numpy().tolist() == [[2, 0]]
        assert main({}).numpy().tolist() == [[0, 0]]
        assert "a map" in raises(TypeError, main, X)
        assert "whose keys are strings" in raises(TypeError, main, {3: 1.0})
    model = onnx_model("", [message(1, "s"), message(1, "x"), message(2, "y"), message(4, "SequenceInsert")],
                       {"s": message(4, message(1, message(1, message(1, 1)))),
                        "x": message(1, message(1, 1), message(2, message(1, message(2, "n"))))}, ["y"])
    main = reflex.load(model, format="onnx").session()["main"]
    first, both = main([], X[0]), main([X[1], X], x=X[0])
    assert len(first) == 1 and np.array_equal(first[0].numpy(), X[0])
    assert [each.numpy().shape for each in both] == [(8,), (2, 8), (8,)] and np.array_equal(both[1].numpy(), X)


def names_that_python_lacks():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "names.onnx")
        with open(path, "wb") as file:
            file.write(onnx_add(b"input.1", b"class", b"sum/out"))
        program = reflex.load(path)
        assert [str(info) for info in program.inputs] == ["input.1: float32[n]", "class: float32[n]"]
        assert program.outputs == (reflex.TensorInfo("sum/out", "float32", ("n",)),)
        session = program.session()
        x = np.ones(3, "float32")
        given = {"input.1": x, "class": x}
        assert list(session.run(given)) == ["sum/out"]
        for y in (session.run(given)["sum/out"], session["main"](**given), session["main"](x, x[::-1])):
            assert (np.asarray(y) == 2).all()


def onnx_add(a, b, c):
    """An ONNX model that adds two vectors, as protobuf."""

    def field(number, data):
        if isinstance(data, int):
            return bytes([number << 3, data])
        return bytes([number << 3 | 2, len(data)]) + data

    shape = field(2, field(1, field(2, b"n")))  # TensorShapeProto.dim.dim_param
    vector = field(2, field(1, field(1, 1) + shape))  # TypeProto.tensor_type
    value = lambda name: field(1, name) + vector  # noqa: E731
    node = field(1, a) + field(1, b) + field(2, c) + field(4, b"Add")
    graph = field(1, node) + field(2, b"g") + field(11, value(a)) + field(11, value(b)) + field(12, value(c))
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


def files():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("nope.onnx", "nope.py", "nope.so"):
            assert name in raises(FileNotFoundError, reflex.load, os.path.join(folder, name))
        os.mkdir(os.path.join(folder, "folder.onnx"))
        raises(IsADirectoryError, reflex.load, os.path.join(folder, "folder.onnx"))
        raises(FileNotFoundError, reflex.library_function, os.path.join(folder, "nope.so"), "f")
        program = reflex.load(SOURCE)
        raises(FileNotFoundError, program.save, os.path.join(folder, "no", "such", "m.so"))
        raises(FileNotFoundError, program.session().profile, "main", X, W, trace=os.path.join(folder, "no", "t"))


def goals():
    """Programs that are to be small make a constant of ones in each call."""
    script = "@I.ir_module\nclass Module:\n    @R.function\n" \
        "    def main(x: R.Tensor((64, 1024), 'float32')) -> R.Tensor((64, 1024), 'float32'):\n" \
        "        return R.add(x, R.ones((64, 1024), 'float32'))\n"
    x = np.full((64, 1024), 2, "float32")
    sizes = []
    with tempfile.TemporaryDirectory() as folder:
        for goal in ("speed", "size"):
            program = reflex.load(script.encode(), format="py", optimize_for=goal)
            np.testing.assert_array_equal(program.session()["main"](x), x + 1)
            program.save(os.path.join(folder, f"{goal}.so"))
            sizes.append(os.path.getsize(os.path.join(folder, f"{goal}.so")))
    assert sizes[0] - sizes[1] > 64 * 1024 * 3, sizes
    assert "speed or size" in raises(ValueError, reflex.load, SOURCE, optimize_for="beauty")


def dimensions():
    script = "@I.ir_module\nclass Module:\n    @R.function\n" \
        "    def main(x: R.Tensor(('n', 3), 'float32')) -> R.Tensor(('n', 3), 'float32'):\n" \
        "        return R.add(x, x)\n"
    x = np.ones((2, 3), "float32")
    program = reflex.load(script.encode(), format="py", dims={"n": 2})
    np.testing.assert_array_equal(program.session()["main"](x), x + x)
    raises(RuntimeError, program.session()["main"], np.ones((4, 3), "float32"))
    assert "there are n" in raises(ValueError, reflex.load, script.encode(), format="py", dims={"m": 2})


def programs():
    os.chdir(os.path.dirname(SOURCE))
    with reflex.load(os.path.basename(SOURCE), tier="off") as program:
        stored = pickle.dumps(program)
        assert repr(program) == f"<reflex.Program {SOURCE}>"
        with program.session() as session:
            y = session["main"](X, W)
    os.chdir("/")
    assert "closed" in raises(ValueError, program.session)
    assert "closed" in raises(ValueError, session.call, "main", X, W)
    again = pickle.loads(stored)
    np.testing.assert_array_equal(again.session()["main"](X, W), y)
    assert "off" in again.tiers()
    assert "open a session" in raises(TypeError, pickle.dumps, again.session())
    assert str(again.signature()) == str(again.signature("main"))
    assert "main" in raises(ValueError, again.signature, "nope")
    # Threads share a program; each has its session.
    outcome = []
    threads = [threading.Thread(target=lambda: outcome.append(again.session()["main"](X, W))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcome) == 4 and all((np.asarray(each) == y).all() for each in outcome)


def functions_know_their_parameters(session):
    f = session["main"]
    assert f is session["main"] and f.__name__ == "main"
    assert f.__doc__ == "(x: float32[n, 8], w: float32[8, 5]) -> output0: float32[n, 5]", f.__doc__
    assert list(inspect.signature(f).parameters)[:2] == ["x", "w"]


def nothing_runs_twice():
    """A function that fails inside the program is not called again with converted arguments."""
    calls = []

    def fail(x):
        calls.append(x)
        raise reflex._library.NotATensor("mine")

    reflex.register_global_func("tests.interface.fail", fail)
    with tempfile.TemporaryDirectory() as folder:
        program = script(folder, """    def main(x: R.Tensor((2,), "float32")) -> R.Any:
        R.func_attr({"relax.force_pure": True})
        y: R.Any = R.call_packed("tests.interface.fail", x, ty_args=(R.Any,))
        return y
""")
        raises(reflex._library.NotATensor, program.session()["main"], np.ones(4, "float32")[::2])
        assert len(calls) == 1, calls


def main():
    program = reflex.load(MODEL)
    assert [str(info) for info in program.inputs] == ["x: float32[n, 8]", "w: float32[8, 5]"]
    assert program.outputs == (reflex.TensorInfo("output0", "float32", ("n", 5)),)
    assert np.empty(program.inputs[1].shape, program.inputs[1].dtype).nbytes == W.nbytes
    for mode in ("bytecode", "compiled", "tiered"):
        arrays_that_numpy_takes(program.session(mode))
        packed_functions(program.session(mode))
    results(program.session())
    wrong_arguments(program.session())
    functions_know_their_parameters(program.session())
    scalars()
    foreign_types()
    values_of_data_types()
    maps_and_sequences()
    names_that_python_lacks()
    files()
    goals()
    dimensions()
    programs()
    nothing_runs_twice()
    for package in sys.modules.keys() & {"tvm"}:
        raise AssertionError(f"{package} was imported")
    print("done")


if __name__ == "__main__":
    main()
