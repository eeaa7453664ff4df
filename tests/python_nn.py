"""Models written with reflex.nn answer as NumPy and as TVM's own modules do: python_nn.py"""
import numpy as np
import tvm
from tvm.relax.frontend import nn as tvm_nn

import reflex
from reflex import nn, te
from common.expect import raises

RANDOM = np.random.default_rng(7)


def filled(module):
    """The module with random data."""
    module.load_state_dict(
        {name: RANDOM.standard_normal(p.shape) / 4 for name, p in module.named_parameters()}
    )
    return module


def array(*shape):
    return RANDOM.standard_normal(shape).astype("float32")


def run(exported, *args):
    return exported.compile().session()["main"](*args)


class Attention(nn.Module):
    def __init__(self, size, heads):
        self.heads, self.width = heads, size // heads
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)

    def forward(self, x):
        parts = nn.op.split(self.qkv(x), 3, axis=-1)
        q, k, v = (parts.field(i).reshape("b", "s", self.heads, self.width) for i in range(3))
        q, k, v = (part.permute(0, 2, 1, 3) for part in (q, k, v))
        scores = (q @ k.permute(0, 1, 3, 2)) * (1 / self.width**0.5)
        y = nn.op.nn.softmax(scores, axis=-1) @ v
        return self.out(y.permute(0, 2, 1, 3).reshape("b", "s", self.heads * self.width))


class Block(nn.Module):
    def __init__(self, size, heads):
        self.norms = [nn.LayerNorm(size), nn.RMSNorm(size)]
        self.attention = Attention(size, heads)
        self.mlp = nn.Sequential([nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size)])

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.mlp(self.norms[1](x))


class TvmBlock(tvm_nn.Module):
    """The same with TVM's modules."""

    def __init__(self, size, heads):
        self.heads, self.width = heads, size // heads
        self.norms = tvm_nn.ModuleList(
            [tvm_nn.LayerNorm(size), tvm_nn.RMSNorm(size, -1, epsilon=1e-5, bias=False)]
        )
        self.qkv, self.out = tvm_nn.Linear(size, 3 * size), tvm_nn.Linear(size, size)
        self.up, self.down = tvm_nn.Linear(size, 2 * size), tvm_nn.Linear(2 * size, size)

    def forward(self, x):
        b, s, size = x.shape
        h = self.qkv(self.norms[0](x))
        q, k, v = tvm_nn.op.split(h, 3, axis=-1)
        parts = (tvm_nn.op.reshape(part, (b, s, self.heads, self.width)) for part in (q, k, v))
        q, k, v = (tvm_nn.op.permute_dims(part, [0, 2, 1, 3]) for part in parts)
        scores = tvm_nn.op.matmul(q, tvm_nn.op.permute_dims(k, [0, 1, 3, 2])) * (1 / self.width**0.5)
        y = tvm_nn.op.matmul(tvm_nn.op.softmax(scores, axis=-1), v)
        y = tvm_nn.op.reshape(tvm_nn.op.permute_dims(y, [0, 2, 1, 3]), (b, s, size))
        x = x + self.out(y)
        return x + self.down(tvm_nn.op.gelu(self.up(self.norms[1](x))))


#: Paths of the parameters of Block by those of TvmBlock.
PATHS = {
    "qkv": "attention.qkv", "out": "attention.out", "up": "mlp.0", "down": "mlp.2",
    "norms.0": "norms.0", "norms.1": "norms.1",
}


def a_block_agrees_with_tvm():
    """Parameters as constants and as inputs, symbolic batch and sequence, against TVM's own frontend,
    which this engine reads too."""
    block = filled(Block(16, 2))
    spec = tvm_nn.spec.Tensor(["b", "s", 16], "float32")
    module, params = TvmBlock(16, 2).export_tvm({"forward": {"x": spec}})
    theirs = reflex.load(module.script().encode(), format="py").session()
    state = block.state_dict()
    weights = []
    for name, _ in params:
        head, _, leaf = name.rpartition(".")
        weights.append(state[f"{PATHS[head]}.{leaf}"].astype("float32"))
    x = nn.Input(("b", "s", 16))
    constants, inputs = block.export(x=x), block.export(x=x, parameters="inputs")
    passed = [state[path] for path in inputs.parameters["main"].values()]
    assert set(inputs.parameters["main"].values()) == set(state)
    for shape in [(1, 1, 16), (2, 5, 16)]:
        value = array(*shape)
        expected = theirs["forward"](value, *weights).numpy()
        np.testing.assert_allclose(run(constants, value).numpy(), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(run(inputs, value, *passed).numpy(), expected, rtol=1e-4, atol=1e-5)


def tvm_reads_the_text():
    """TVM parses what is exported, finds it well-formed, and prints it with the same meaning."""
    exported = Block(16, 2).export(x=nn.Input(("b", "s", 16)), parameters="inputs")
    module = tvm.script.from_source(exported.text)
    tvm.relax.analysis.well_formed(module)
    shapes = {path: parameter.shape for path, parameter in Block(16, 2).named_parameters()}
    args = {name: array(*shapes[path]) for name, path in exported.parameters["main"].items()}
    args["x"] = array(1, 3, 16)
    again = reflex.load(module.script().encode(), format="py").session()
    ours = exported.compile().session()
    np.testing.assert_array_equal(again["main"](**args).numpy(), ours["main"](**args).numpy())


def branches_and_kernels():
    """Branches in branches, with parameters, tuples and kernels inside, against NumPy; TVM reads the text."""
    a = te.placeholder((2, 4), name="A")
    halved = te.create_prim_func([a, te.compute((2, 4), lambda i, j: a[i, j] * 0.5, name="B")], "halved")

    class Net(nn.Module):
        def __init__(self):
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, p, q, x):
            inner = lambda: nn.cond(q, lambda: self.second(x), lambda: nn.call_tir(halved, x, shape=(2, 4)))
            y = nn.cond(p, lambda: self.first(x), inner)
            first, second = nn.cond(q, lambda: (x, y), lambda: (y, -x))
            return first + 1, second

    net = filled(Net())
    flag = nn.Input((), "bool")
    exported = net.export(p=flag, q=flag, x=nn.Input((2, 4)))
    text = net.export(p=flag, q=flag, x=nn.Input((2, 4)), parameters="inputs").text
    tvm.relax.analysis.well_formed(tvm.script.from_source(text))
    state, x = net.state_dict(), array(2, 4)
    for p in (True, False):
        for q in (True, False):
            layer = "first" if p else "second"
            y = x @ state[f"{layer}.weight"].T + state[f"{layer}.bias"] if p or q else x * 0.5
            expected = (x + 1, y) if q else (y + 1, -x)
            for found, wanted in zip(run(exported, np.array(p), np.array(q), x), expected):
                np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)

    class Wrong(nn.Module):
        def forward(self, p, x):
            return self.body(p, x)

    for body, kind, text in [
        (lambda p, x: nn.cond(p, lambda: 1.0, lambda: x), TypeError, "a side gives 1.0"),
        (lambda p, x: nn.cond(p, lambda: (x, x), lambda: x), TypeError, "more tensors than the other"),
        (lambda p, x: nn.call_tir("x = 1", x, shape=(4,)), ValueError, "one function under @T.prim_func"),
        (lambda p, x: nn.call_tir(halved, x, shape=("k",)), ValueError, "no input has the dimension 'k'"),
        (lambda p, x: nn.call_tir(halved.replace("halved", "main"), x, shape=(4,)), ValueError,
         "a kernel and a function are called 'main'"),
    ]:
        wrong = Wrong()
        wrong.body = body
        assert text in raises(kind, wrong.export, p=flag, x=nn.Input((2, 4))), text


def convolutions_and_embeddings():
    class Net(nn.Module):
        def __init__(self):
            self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)
            self.table = nn.Embedding(10, 4)

        def forward(self, image, ids):
            pooled = nn.op.mean(self.conv(image), axis=[2, 3])
            return pooled, self.table(ids) - 1, 2 / nn.op.exp(pooled)

    net = filled(Net())
    image, ids = array(1, 3, 6, 6), np.array([3, 0, 9])
    exported = net.export(image=nn.Input((1, 3, 6, 6)), ids=nn.Input(("n",), "int64"))
    pooled, rows, inverse = (y.numpy() for y in run(exported, image, ids))
    padded = np.pad(image, [(0, 0), (0, 0), (1, 1), (1, 1)])
    state = net.state_dict()
    patches = [padded[0, :, i : i + 3, j : j + 3] for i in (0, 2, 4) for j in (0, 2, 4)]
    dot = np.array([np.tensordot(state["conv.weight"], patch, 3) for patch in patches])
    expected = dot.mean(axis=0) + state["conv.bias"]
    np.testing.assert_allclose(pooled[0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(rows, state["table.weight"][ids] - 1)
    np.testing.assert_allclose(inverse[0], 2 / np.exp(expected), rtol=1e-4)


def methods_and_shared_parameters():
    class Tied(nn.Module):
        def __init__(self):
            self.embedding = nn.Embedding(6, 4)
            self.head = nn.Linear(4, 6, bias=False)
            self.head.weight = self.embedding.weight

        def embed(self, ids):
            return self.embedding(ids)

        def logits(self, x):
            return self.head(x)

    tied = filled(Tied())
    text = tied.export(
        {"embed": {"ids": nn.Input(("n",), "int64")}, "logits": {"x": nn.Input(("n", 4))}}
    )
    assert text.text.count("ffi.Tensor") == 1, "one constant"
    session = text.compile().session()
    rows = session["embed"](np.array([1, 5])).numpy()
    weight = tied.embedding.weight.data
    np.testing.assert_allclose(session["logits"](rows).numpy(), rows @ weight.T, rtol=1e-5)


def half_precision_parameters():
    class Scale(nn.Module):
        def __init__(self, dtype):
            self.scale = nn.Parameter((3,), dtype, data=[0.5, 1, 2])

        def forward(self, x):
            return (x.astype(self.scale.dtype) * self.scale).astype("float32")

    for dtype in ("float16", "bfloat16", "float64", "int32"):
        x = np.array([[2, 4, 8]], "float32")
        y = run(Scale(dtype).export(x=nn.Input(("n", 3))), x).numpy()
        expected = [[0, 4, 16]] if dtype == "int32" else [[1, 4, 16]]
        np.testing.assert_array_equal(y, expected)


def a_registered_function():
    class Same(nn.Module):
        def forward(self, x):
            return nn.call_packed("python_nn.same", x, shape=("n", 4)) + 1

    reflex.register_global_func("python_nn.same", lambda x: x)
    x = array(2, 4)
    np.testing.assert_array_equal(run(Same().export(x=nn.Input(("n", 4))), x).numpy(), x + 1)


def refusals():
    class Body(nn.Module):
        def __init__(self, body):
            self.body = body

        def forward(self, x):
            return self.body(x)

    x = nn.Input(("n", 4))

    def export(body, **inputs):
        return Body(body).export(**(inputs or {"x": x}))

    assert "no data" in raises(ValueError, nn.Linear(4, 4).export, x=x)
    assert "outside" in raises(RuntimeError, nn.op.nn.relu, 1)
    assert "branch" in raises(TypeError, export, lambda x: x if x else -x)
    assert "no attribute" in raises(ValueError, export, lambda x: x + nn.Parameter((4,), data=[1] * 4))
    assert "unknown" in raises(TypeError, export, lambda x: nn.op.argmax(x, axis=1) + 1)
    assert "'m'" in raises(ValueError, export, lambda x: x.reshape("m", 4))
    assert "no dimension" in raises(ValueError, export, lambda x: x.reshape("f(n)", 4))
    assert "no dimension" in raises(ValueError, export, lambda x: x.reshape("n); R.print(", 4))
    assert "gives 3" in raises(TypeError, export, lambda x: 3)
    assert "argument" in raises(TypeError, export, lambda x: nn.op.add(x, object()))
    assert "argument" in raises(TypeError, export, lambda x: nn.op.nn.leakyrelu(x, alpha=float("nan")))
    assert "class" in raises(ValueError, Body(abs).export, **{"class": x})
    assert "'n'" in raises(ValueError, export, lambda x: x, n=x)
    kept = []
    export(lambda x: kept.append(x) or -x)
    assert "another function" in raises(ValueError, export, lambda x: x + kept[0])
    assert "shape (3,)" in raises(ValueError, nn.Parameter, (4,), data=[1, 2, 3])
    linear = nn.Linear(4, 4)
    assert "weight: " in raises(ValueError, linear.load_state_dict, {"weight": [1], "bias": [0] * 4})
    assert "more" in raises(KeyError, linear.load_state_dict, {**linear.state_dict(), "more": 1})
    loop = Body(abs)
    loop.body = loop
    assert "itself" in raises(ValueError, loop.export, x=x)
    # The compiler judges the operators.
    wrong = export(lambda x: nn.op.matmul(x, x), x=nn.Input((3, 4)))
    assert "matmul" in raises(Exception, wrong.compile).lower()
    assert "no_such" in raises(Exception, export(lambda x: nn.op.no_such(x)).compile)


def main():
    a_block_agrees_with_tvm()
    tvm_reads_the_text()
    branches_and_kernels()
    convolutions_and_embeddings()
    methods_and_shared_parameters()
    half_precision_parameters()
    a_registered_function()
    refusals()
    print("done")


if __name__ == "__main__":
    main()
