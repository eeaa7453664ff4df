"""Kernels of `reflex.te`: TVM's `te.create_prim_func` gives the same for the same expressions, and they compute what NumPy does."""
import sys
import types

import numpy as np

# The kernels alone are compared where there is no library: python_te.py PATH/te.py.
if len(sys.argv) > 1:
    import importlib.util

    spec = importlib.util.spec_from_file_location("te", sys.argv[1])
    te, reflex = importlib.util.module_from_spec(spec), None
    spec.loader.exec_module(te)
else:
    import reflex
    from reflex import te

from tvm import ir, te as of_tvm, tirx  # noqa: E402
from tvm.script import from_source  # noqa: E402


def matmul(te):
    a, b = te.placeholder((6, 8), name="A"), te.placeholder((8, 5), name="B")
    k = te.reduce_axis((0, 8), name="k")
    return [a, b, te.compute((6, 5), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")], lambda a, b: a @ b


def dense_relu(te):
    n = te.var("n")
    a, b, c = te.placeholder((n, 8), name="A"), te.placeholder((5, 8), name="B"), te.placeholder((5,), name="bias")
    k = te.reduce_axis((0, 8), name="k")
    product = te.compute((n, 5), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="P")
    biased = te.compute((n, 5), lambda i, j: product[i, j] + c[j], name="Q")
    y = te.compute((n, 5), lambda i, j: te.maximum(biased[i, j], te.const(0.0, "float32")), name="Y")
    return [a, b, c, y], lambda a, b, c: np.maximum(a @ b.T + c, 0)


def softmax(te):
    x = te.placeholder((4, 7), name="X")
    k, m = te.reduce_axis((0, 7), name="k"), te.reduce_axis((0, 7), name="m")
    most = te.compute((4,), lambda i: te.max(x[i, k], axis=k), name="most")
    e = te.compute((4, 7), lambda i, j: te.exp(x[i, j] - most[i]), name="E")
    total = te.compute((4,), lambda i: te.sum(e[i, m], axis=m), name="total")
    y = te.compute((4, 7), lambda i, j: e[i, j] / total[i], name="Y")
    return [x, y], lambda x: np.exp(x - x.max(1, keepdims=True)) / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)


def conv(te):
    x, w = te.placeholder((2, 3, 8, 8), name="X"), te.placeholder((4, 3, 3, 3), name="W")
    padded = te.compute(
        (2, 3, 10, 10),
        lambda n, c, h, v: te.if_then_else(
            te.all(h >= 1, h < 9, v >= 1, v < 9), x[n, c, h - 1, v - 1], te.const(0.0, "float32")
        ),
        name="padded",
    )
    c, h, v = (te.reduce_axis((0, 3), name=name) for name in ("rc", "rh", "rv"))
    y = te.compute(
        (2, 4, 8, 8),
        lambda n, o, i, j: te.sum(padded[n, c, i + h, j + v] * w[o, c, h, v], axis=[c, h, v]),
        name="Y",
    )

    def wanted(x, w):
        x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
        return np.einsum("nchwij,ocij->nohw", windows, w)

    return [x, w, y], wanted


def reshape(te):
    x = te.placeholder((6, 4), name="X")
    # TVM simplifies indices when it makes the kernel, Reflex when it compiles it.
    y = te.compute((3, 8), lambda i, j: x[i * 2 + j // 4, j % 4], name="Y")
    return [x, y], lambda x: x.reshape(3, 8)


def transposed(te):
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), name="X")
    return [x, te.compute((m, n), lambda i, j: x[j, i], name="Y")], lambda x: x.T


def scalar(te):
    x = te.placeholder((9,), name="X")
    k = te.reduce_axis((0, 9), name="k")
    return [x, te.compute((), lambda: te.min(x[k], axis=k), name="Y")], lambda x: x.min()


def functions(te):
    x = te.placeholder((3, 5), name="X")
    y = te.compute(
        (3, 5), lambda i, j: te.tanh(x[i, j]) + te.exp(x[i, j]) * te.sqrt(te.abs(x[i, j])) - te.sigmoid(x[i, j]), name="Y"
    )
    return [x, y], lambda x: np.tanh(x) + np.exp(x) * np.sqrt(np.abs(x)) - 1 / (1 + np.exp(-x))


def integers(te):
    x, y = te.placeholder((12,), "int8", "X"), te.placeholder((12,), "int8", "Y")
    k = te.reduce_axis((0, 12), name="k")
    return [x, y, te.compute((1,), lambda i: te.sum(x[k].astype("int32") * y[k].astype("int32"), axis=k), name="Z")], (
        lambda x, y: np.array([np.dot(x.astype("int32"), y.astype("int32"))])
    )


def two_results(te):
    x = te.placeholder((4, 3), name="X")
    y = te.compute((4, 3), lambda i, j: x[i, j] * te.const(2.0, "float32"), name="Y")
    z = te.compute((4, 3), lambda i, j: y[i, j] + x[i, j], name="Z")
    return [x, y, z], lambda x: (2 * x, 3 * x)


def indices(te):
    x = te.placeholder((5,), name="X")
    y = te.compute((5, 4), lambda i, j: x[i] * (i * 4 + j).astype("float32"), name="Y")
    return [x, y], lambda x: x[:, None] * np.arange(20, dtype="float32").reshape(5, 4)


def pooled(te):
    x = te.placeholder((2, 8), name="X")
    k = te.reduce_axis((0, 2), name="k")
    y = te.compute((2, 4), lambda i, j: te.max(x[i, j * 2 + k], axis=k), name="Y")
    return [x, y], lambda x: x.reshape(2, 4, 2).max(2)


CASES = (
    matmul, dense_relu, softmax, conv, reshape, transposed, scalar, functions, integers, two_results, indices, pooled,
)


def tvm_names():
    """TVM's `te`, with the names that differ here."""
    names = {name: getattr(of_tvm, name) for name in dir(of_tvm) if not name.startswith("_")}
    return types.SimpleNamespace(**{**names, "maximum": tirx.max, "minimum": tirx.min})


def check_errors():
    a, k = te.placeholder((4,), name="A"), te.reduce_axis((0, 4), name="k")
    wrong = {
        "all of an element": lambda: te.compute((1,), lambda i: te.sum(a[k], axis=k) + 1.0),
        "has 1 dimensions, not 2": lambda: a[0, 0],
        "goes along axes": lambda: te.compute((4,), lambda i: te.sum(a[i], axis=i)),
        "convert one with astype": lambda: te.compute((4,), lambda i: a[i] + i),
        "which is no argument": lambda: te.create_prim_func([te.compute((4,), lambda i: a[i])]),
        "two tensors are named": lambda: te.create_prim_func([a, te.compute((4,), lambda i: a[i], name="A")]),
        "is not known here": lambda: te.compute((4,), lambda i: a[i] if i < 2 else a[0]),
        "its function 2 parameters": lambda: te.compute((4,), lambda i, j: a[i]),
    }
    for why, make in wrong.items():
        try:
            make()
        except (TypeError, ValueError, IndexError) as error:
            assert why in str(error), f"{why}: {error}"
        else:
            raise AssertionError(f"{why}: accepted")


def run(make):
    tensors, wanted = make(te)
    rng = np.random.default_rng(7)
    inputs = []
    for tensor in tensors:
        if tensor._value is None:
            shape = [int(n.text) if not n._names else 3 for n in tensor.shape]
            values = rng.standard_normal(shape) * (20 if tensor.dtype == "int8" else 1)
            inputs.append(values.astype(tensor.dtype))
    answers = reflex.compile(te.module(tensors)).session()["main"](*inputs)
    answers = [answers] if hasattr(answers, "numpy") else list(answers)
    expected = wanted(*inputs)
    for answer, value in zip(answers, expected if isinstance(expected, tuple) else [expected]):
        np.testing.assert_allclose(answer.numpy(), value, rtol=2e-5, atol=2e-5, err_msg=make.__name__)


def main():
    for make in CASES:
        text = te.create_prim_func(make(te)[0])
        function = from_source(f"# from tvm.script import tirx as T\n{text}")
        ir.assert_structural_equal(function, of_tvm.create_prim_func(make(tvm_names())[0]))
        if reflex is not None:
            run(make)
    check_errors()
    print(f"{len(CASES)} kernels\ndone")


main()
