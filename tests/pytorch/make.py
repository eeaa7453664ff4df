"""Exports small modules and records what PyTorch itself answers: the archives below tests/pytorch/cases.

`python make.py [NAME...]` writes them all, or some; PyTorch 2.9.1 wrote those that are there. Each case is NAME.pt2 with
its inputs (`in0`, `in1`, ...) and answers (`out0`, ...) in NAME.npz. NAME_core is the same program after
`run_decompositions`. Archives are deflated but for those of STORED, which are as `torch.export.save` writes them. Those of
REFUSED are archives that no import takes, with the words that the refusal has.
"""

import pathlib
import sys
import zipfile

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).parent / "cases"
STORED = ("mlp", "mlp_dynamic", "cnn", "tied", "doubles", "lstm")
CASES, REFUSED = {}, {}


class Function(nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, *args):
        return self.call(*args)


def case(name, module, *inputs, dynamic=None, core=False):
    """A case of a module or a function; `core` adds it after run_decompositions as well."""
    assert name not in CASES, name
    CASES[name] = (module, inputs, dynamic, False)
    if core:
        CASES[f"{name}_core"] = (module, inputs, dynamic, True)


def refused(name, words, module, *inputs, dynamic=None, core=False):
    REFUSED[name] = (words, module, inputs, dynamic, core)


def f(*shape, seed=0, scale=1.0):
    g = torch.Generator().manual_seed(seed + sum(shape) * 7 + len(shape))
    return torch.randn(*shape, generator=g) * scale


def i(low, high, *shape, seed=0, dtype=torch.int64):
    g = torch.Generator().manual_seed(seed + 13)
    return torch.randint(low, high, shape, generator=g).to(dtype)


# Nets.

class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 3)
        self.register_buffer("scale", torch.arange(3.0))
        self.shift = torch.tensor([1.0, 2.0, 3.0])

    def forward(self, x):
        y = self.b(torch.relu(self.a(x))) * self.scale + self.shift
        return y, y[:, 1:]


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.Hardswish(inplace=True),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8, 5),
        )
        for m in self.net:
            if isinstance(m, nn.BatchNorm2d):
                m.running_mean.normal_(generator=torch.Generator().manual_seed(1))
                m.running_var.uniform_(0.5, 2.0, generator=torch.Generator().manual_seed(2))

    def forward(self, x):
        return self.net(x)


class Gpt(nn.Module):
    def __init__(self, vocabulary=20, width=16, heads=2, length=12):
        super().__init__()
        self.heads = heads
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.first, self.second, self.last = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, ids):
        n, t = ids.shape
        x = self.tokens(ids) + self.places(torch.arange(t, device=ids.device))
        q, k, v = self.qkv(self.first(x)).chunk(3, dim=-1)
        q, k, v = (z.view(n, t, self.heads, -1).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, -1))
        x = x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))
        return self.last(x) @ self.tokens.weight.T


class Rotary(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            places = torch.arange(x.shape[1]).float()
            rates = 1.0 / (10000 ** (torch.arange(0, x.shape[-1], 2).float() / x.shape[-1]))
            angles = torch.cat([torch.outer(places, rates)] * 2, dim=-1)
            cos, sin = angles.cos(), angles.sin()
        half = x.shape[-1] // 2
        turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
        return x * cos + turned * sin


class Recurrent(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        y, state = self.layer(x)
        return (y, *state) if isinstance(state, tuple) else (y, state)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        base = f(6, 8)
        self.register_buffer("turned", base.t())
        self.register_buffer("part", base[2:4])
        self.register_buffer("stepped", base[:, ::2])

    def forward(self, x):
        return x @ self.turned, self.part + x, self.stepped * 2


def nets():
    b = torch.export.Dim("b", min=2, max=64)
    s = torch.export.Dim("s", min=2, max=12)
    h = torch.export.Dim("h", min=4, max=64)
    case("mlp", Mlp(), f(5, 4), core=True)
    case("mlp_dynamic", Mlp(), f(5, 4), dynamic=({0: b},), core=True)
    case("cnn", Cnn(), f(2, 3, 8, 8), core=True)
    case("cnn_dynamic", Cnn(), f(3, 3, 8, 8), dynamic=({0: b},), core=True)
    case("cnn_dynamic_image", Cnn(), f(3, 3, 8, 8), dynamic=({0: b, 2: 2 * h},))
    case("gpt", Gpt(), i(0, 20, 2, 6), core=True)
    case("gpt_dynamic", Gpt(), i(0, 20, 2, 6), dynamic=({0: b, 1: s},), core=True)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    case("transformer", layer, f(2, 5, 16), core=True)
    case("transformer_norm_first", nn.TransformerEncoderLayer(16, 4, 24, activation="gelu", norm_first=True), f(5, 2, 16))
    case("multihead", Function(nn.MultiheadAttention(8, 2, batch_first=True)), f(2, 3, 8), f(2, 4, 8), f(2, 4, 8))
    case("rotary", Rotary(), f(2, 5, 8), core=True)
    case("rotary_dynamic", Rotary(), f(2, 5, 8), dynamic=({1: s},), core=True)
    case("lstm", Recurrent(nn.LSTM(5, 4, num_layers=2, batch_first=True)), f(2, 6, 5))
    case("lstm_bidirectional", Recurrent(nn.LSTM(5, 4, bidirectional=True)), f(6, 2, 5))
    case("gru", Recurrent(nn.GRU(5, 4, num_layers=2, bidirectional=True)), f(6, 2, 5))
    case("rnn", Recurrent(nn.RNN(5, 4, nonlinearity="relu", bias=False)), f(6, 2, 5))
    case("rnn_tanh", Recurrent(nn.RNN(5, 4)), f(6, 2, 5))
    case("tied", Tied(), f(2, 8), core=True)


# Operators.

def unary():
    plain = {
        "abs": torch.abs, "ceil": torch.ceil, "cos": torch.cos, "sin": torch.sin, "tan": torch.tan, "tanh": torch.tanh,
        "erf": torch.erf, "exp": torch.exp, "expm1": torch.expm1, "exp2": torch.exp2, "floor": torch.floor,
        "neg": torch.neg, "relu": torch.relu, "round": torch.round, "sigmoid": torch.sigmoid, "sign": torch.sign,
        "sinh": torch.sinh, "cosh": torch.cosh, "atan": torch.atan, "asinh": torch.asinh, "trunc": torch.trunc,
        "erfc": torch.erfc, "square": torch.square, "isnan": torch.isnan, "isinf": torch.isinf,
        "isfinite": torch.isfinite, "logical_not": torch.logical_not, "frac": torch.frac,
    }
    case("unary", lambda x: tuple(call(x) for call in plain.values()), f(3, 5, scale=2.0), core=True)
    inside = [torch.acos, torch.asin, torch.atanh]
    case("unary_inside", lambda x: tuple(call(x) for call in inside), torch.rand(2, 4) * 1.8 - 0.9)
    positive = [torch.log, torch.log2, torch.log10, torch.log1p, torch.sqrt, torch.rsqrt, torch.reciprocal, lambda x: torch.acosh(x + 1)]
    case("unary_positive", lambda x: tuple(call(x) for call in positive), torch.rand(2, 4) + 0.1, core=True)
    smooth = {
        "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "hardswish": F.hardswish,
        "hardsigmoid": F.hardsigmoid, "elu": lambda x: F.elu(x, 0.7), "selu": F.selu, "celu": lambda x: F.celu(x, 1.3),
        "mish": F.mish, "softplus": lambda x: F.softplus(x, 2.0, 3.0), "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
        "relu6": F.relu6, "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.7), "logsigmoid": F.logsigmoid,
        "softshrink": F.softshrink, "hardshrink": F.hardshrink, "tanhshrink": F.tanhshrink, "softsign": F.softsign,
        "threshold": lambda x: F.threshold(x, 0.1, -3.0), "glu": lambda x: F.glu(x, 1), "relu_": lambda x: F.relu(x + 1, inplace=True),
    }
    case("activations", lambda x: tuple(call(x) for call in smooth.values()), f(3, 6, scale=3.0), core=True)
    case("activations_half", lambda x: (F.gelu(x), F.silu(x), F.softmax(x, -1), torch.sigmoid(x), F.layer_norm(x, (6,))), f(3, 6).half())
    case("activations_bfloat16", lambda x: (F.gelu(x), F.silu(x), F.softmax(x, -1), x.mean(1), x + 1), f(3, 6).bfloat16())
    case("unary_integers", lambda x: (torch.abs(x), torch.neg(x), torch.sqrt(x.abs()), torch.sigmoid(x), torch.bitwise_not(x), torch.sign(x), x.floor()), i(-5, 6, 3, 4))
    case("prelu", nn.PReLU(3), f(2, 3, 4), core=True)
    case("prelu_single", nn.PReLU(), f(2, 3, 4))
    case("softmax", lambda x: (F.softmax(x, 1), F.log_softmax(x, -1), F.softmax(x.half(), 0, dtype=torch.float32), F.softmin(x, 2)), f(2, 3, 4), core=True)


def binary():
    def arithmetic(x, y):
        return x + y, x - y, x * y, x / y, torch.maximum(x, y), torch.minimum(x, y), x**2, x**3, torch.add(x, y, alpha=0.5), torch.rsub(x, y), torch.sub(x, 2, alpha=3), 1 - x, 2 / y, torch.atan2(x, y)
    case("arithmetic", arithmetic, f(3, 4), f(4, seed=3), core=True)
    def promotion(x, n, t, flag):
        return x + n, n + 1, n + 1.5, n * flag, x + t, t + 2, n / 2, flag + flag, flag * 2.0, n + t, x.half() + x, x.half() * 2, n.int() + n, x.double() + x
    case("promotion", promotion, f(3, 4), i(-4, 5, 3, 4), torch.tensor(3), i(0, 2, 3, 4).bool(), core=True)
    def division(x, y, n, m):
        div = lambda a, b: [torch.div(a, b, rounding_mode=mode) for mode in ("floor", "trunc", None)]
        return *div(x, y), *div(n, m), x // y, n // m, n // -3, x % y, n % m, torch.fmod(x, y), torch.fmod(n, m), torch.remainder(n, -3), x // 2
    case("division", division, f(3, 4), f(3, 4, seed=1), i(-9, 10, 3, 4), i(1, 5, 3, 4, seed=2), core=True)
    def compare(x, y, n):
        return x > y, x >= 0, x < y, x <= 1, x == y, x != y, n > 1.5, n == 2, torch.eq(n, x)
    case("comparisons", compare, f(3, 4), f(3, 4, seed=5), i(0, 4, 3, 4), core=True)
    def logic(a, b, n):
        return a & b, a | b, a ^ b, ~a, torch.logical_and(n, b), torch.logical_or(n, a), torch.logical_xor(n, n), n & 3, n | 4, n ^ n, n << 2, n >> 1
    case("logic", logic, i(0, 2, 3, 4).bool(), i(0, 2, 3, 4, seed=4).bool(), i(0, 9, 3, 4), core=True)
    case("power", lambda x, y: (x.abs() ** y, x.abs() ** 0.5, x.abs() ** -0.5, 2.0**y, x**-1, torch.pow(2, y), x.abs() ** 1.7), f(3, 4), f(3, 4, seed=2), core=True)
    def choose(x, y, mask):
        return torch.where(mask, x, y), torch.where(mask, x, 0.0), torch.where(x > 0, 1, 0), x.masked_fill(mask, -1.5), x.masked_fill(mask, float("-inf")), torch.clamp(x, -0.5, 0.5), x.clamp(min=0.1), x.clamp_max(0.2), torch.clamp(x, min=y), torch.lerp(x, y, 0.3)
    case("choose", choose, f(3, 4), f(3, 4, seed=2), i(0, 2, 3, 4).bool(), core=True)
    case("addcmul", lambda x, y, z: (torch.addcmul(x, y, z, value=0.5), torch.addcdiv(x, y, z.abs() + 1, value=2.0)), f(3, 4), f(3, 4, seed=2), f(3, 4, seed=4), core=True)
    def in_place(x, y):
        w = x * 1
        w[0] = y[0]
        return w
    refused("views_written", "it writes into memory that", in_place, f(3, 4), f(3, 4, seed=2))
    case("in_place", lambda x, y: (x.clone().add_(y).mul_(2).relu_(), torch.zeros_like(x).fill_(2.0), (x + 1).masked_fill_(y > 0, 0.5), x.half().add_(y)), f(3, 4), f(3, 4, seed=2), core=True)


def shapes():
    d, e = torch.export.Dim("d", min=3, max=50), torch.export.Dim("e", min=4, max=50)
    def views(x):
        return x.view(6, 4), x.reshape(2, -1), x.permute(2, 0, 1), x.transpose(0, -1), x.unsqueeze(1), x.flatten(1), x.flatten(), x[None].squeeze(0), x.unflatten(2, (2, 2)), x.unsqueeze(0).expand(2, -1, -1, -1), x.movedim(0, 2), x.swapaxes(0, 1), x.mT, x.view_as(x), x.contiguous(), x.narrow(1, 1, 2)
    case("views", views, f(2, 3, 4), core=True)
    def views_dynamic(x):
        n = x.shape[0]
        return x.view(n, -1), x.reshape(-1, 4), x.flatten(0, 1), x.reshape(n * 3, 4), x.view(n, 3, 2, 2).permute(0, 2, 1, 3).reshape(n, 2, -1), x.expand(2, n, 3, 4), x.sum(0) / n, torch.zeros(n, 2) + 1, torch.arange(n), x.new_full((n,), 2.5)
    case("views_dynamic", views_dynamic, f(5, 3, 4), dynamic=({0: d},), core=True)
    def slices(x):
        return x[1:], x[:, :-1], x[..., ::2], x[1], x[:, -1], x[0, 1, 2], x[-2:, 1:3], x.select(1, 0), x[:100], x[5:2]
    case("slices", slices, f(4, 5, 6), core=True)
    case("slices_dynamic", lambda x: (x[1:], x[:-1], x[-2:], x[:2], x[1], x[-1], x[::2], x[1:-1]), f(6, 3), dynamic=({0: e},), core=True)
    def joins(x, y):
        return torch.cat([x, y], 0), torch.cat([x[:2], y[:2]], 1), torch.stack([x[:2], y[:2]]), torch.stack([x[0], y[0]], -1), torch.hstack([x[:2], y[:2]]), torch.vstack([x, y]), torch.cat([x, y.double()])
    case("joins", joins, f(3, 4), f(2, 4), core=True)
    def splits(x):
        return *x.split(2), *x.split([1, 2, 2]), *x.chunk(3, 1), *x.unbind(0), *torch.tensor_split(x, 3, 1), *torch.tensor_split(x, (1, 3), 0)
    case("splits", splits, f(5, 6), core=True)
    def repeats(x):
        return x.repeat(2, 1), x.repeat(2, 3, 1), x.tile(2), x.repeat_interleave(3, 1), torch.repeat_interleave(x, 2), x.flip(0), x.flip([0, 1]), torch.roll(x, 1, 0), torch.roll(x, (1, -1), (0, 1)), torch.roll(x, 2)
    case("repeats", repeats, f(3, 4), core=True)
    def indexed(x, n, m):
        return x[n], x[:, m], x[n, m], x[:, n, m[:, None]], x[n, :, m], torch.index_select(x, 1, m), torch.gather(x, 1, n.view(1, -1, 1).expand(3, -1, 5) % 4), F.embedding(n, x[:, :, 0]), x[n, m, m], torch.take_along_dim(x, m.view(1, 3, 1).expand(3, 3, 5) % 4, 1), x[:, [0, 2]]
    case("indexed", indexed, f(3, 4, 5), i(0, 3, 3), i(-3, 4, 3, seed=2), core=True)
    def written(x, n, y):
        a = x.index_put((n,), y)
        b = x.index_put((n,), y, accumulate=True)
        c = x.scatter(0, n.view(-1, 1).expand(-1, 3), y)
        d = x.scatter_add(0, n.view(-1, 1).expand(-1, 3), y)
        e = torch.slice_scatter(x, y, 0, 1, 3)
        g = x.masked_fill(x > 0, 0.0).index_put((torch.tensor([0]), torch.tensor([1])), torch.tensor(9.0))
        return a, b, c, d, e, g, x.scatter_reduce(0, n.view(-1, 1).expand(-1, 3), y, "amax"), torch.select_scatter(x, y[0], 0, 2), x.scatter(1, n[:, None], 7.0)
    case("written", written, f(4, 3), torch.tensor([2, 0]), f(2, 3, seed=3), core=True)
    def made(x):
        return torch.zeros(2, 3), torch.ones(2, dtype=torch.int32), torch.full((2, 2), 1.5), torch.full((2,), 3), torch.full((2,), True), torch.arange(5), torch.arange(1.0, 3.0, 0.5), torch.arange(10, 0, -3), torch.zeros_like(x), torch.ones_like(x, dtype=torch.int64), torch.full_like(x, 2), x.new_zeros(3), torch.eye(3), torch.eye(2, 4), torch.linspace(0, 1, 5), torch.tensor([1.0, 2.0]), torch.scalar_tensor(3.5), *torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij"), *torch.meshgrid(torch.arange(2), torch.arange(3), indexing="xy"), torch.empty(2, 2).fill_(1.0)
    case("made", made, f(2, 3), core=True)
    def triangles(x):
        return x.tril(), x.triu(1), x.tril(-1), torch.diagonal(x, 0, 1, 2), torch.diagonal(x, 1, 1, 2), F.one_hot(torch.tensor([0, 2, 1]), 4), torch.ones(4, 4, dtype=torch.bool).tril()
    case("triangles", triangles, f(2, 4, 5), core=True)
    def converted(x, n):
        return x.to(torch.int32), x.double(), x.half(), x.bfloat16(), x.bool(), n.float(), n.to(torch.uint8), x.type_as(n), x.to(n), n.to(torch.int16).int(), x.long()
    case("converted", converted, f(3, 4, scale=3.0), i(0, 9, 3, 4), core=True)
    def padded(x):
        return F.pad(x, (1, 2)), F.pad(x, (1, 0, 2, 1), value=3.0), F.pad(x, (-1, 1)), F.pad(x[0], (1, 1), mode="reflect"), F.pad(x, (2, 1, 1, 1), mode="reflect"), F.pad(x[0], (1, 2), mode="replicate"), F.pad(x, (1, 1, 1, 1), mode="circular")
    case("padded", padded, f(2, 4, 5, 6), core=True)
    case("shuffled", lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), F.channel_shuffle(x, 4)), f(2, 8, 4, 6), core=True)


def reductions():
    def reduced(x):
        return x.sum(), x.sum(1), x.sum((0, 2), keepdim=True), x.mean(), x.mean(-1, keepdim=True), x.amax(1), x.amin((0, 1)), x.prod(1), x.max(), x.min(), *x.max(1), *x.min(2, keepdim=True), x.var(), x.var(1, correction=0), x.std((0, 2)), *torch.var_mean(x, 2, correction=0, keepdim=True), *torch.std_mean(x, 1), x.logsumexp(1), x.norm(), x.norm(dim=1), torch.linalg.vector_norm(x, 1, dim=2), torch.linalg.vector_norm(x, float("inf")), torch.linalg.vector_norm(x, 3, dim=(0, 1)), (x > 0).sum(), (x > 0).float().mean(), F.normalize(x, dim=1), torch.count_nonzero(x > 0, 1)
    case("reductions", reduced, f(3, 4, 5), core=True)
    def integers(n, b):
        return n.sum(), n.sum(1), n.sum(dtype=torch.float32), n.prod(1), n.max(), n.amax(1), n.min(0)[0], b.any(), b.all(1), b.any(0, keepdim=True), b.sum(), n.cumsum(1), n.float().mean(), n.any()
    case("reductions_integers", integers, i(-3, 4, 3, 4), i(0, 2, 3, 4).bool(), core=True)
    def arguments(x):
        return x.argmax(), x.argmax(1), x.argmin(0, keepdim=True), *x.topk(2, 1), *x.topk(3, 0, largest=False), *x.sort(1), *x.sort(0, descending=True), x.argsort(1), *torch.sort(x, stable=True, dim=1, descending=True)
    case("arguments", arguments, f(4, 5), core=True)
    case("scans", lambda x: (x.cumsum(0), x.cumsum(1), x.cumprod(1), (x > 0).cumsum(1)), f(3, 5), core=True)
    d = torch.export.Dim("d", min=2, max=50)
    case("reductions_dynamic", lambda x: (x.mean(0), x.sum(), x.var(0, correction=0), x.std(0), x.softmax(0), x.max(0)[0], x.argmax(0), x.cumsum(0), x.sort(0)[0]), f(6, 4), dynamic=({0: d},), core=True)


def products():
    def multiplied(x, y, v, b):
        return x @ y, torch.mm(x, y), x @ v, torch.mv(x, v), torch.dot(v, v), torch.outer(v, v), torch.addmm(b, x, y), torch.addmm(b, x, y, beta=0.5, alpha=2.0), F.linear(x, y.t()), F.linear(x, y.t(), b), x.matmul(y[None])
    case("products", multiplied, f(3, 4), f(4, 5), f(4), f(5), core=True)
    case("products_batched", lambda x, y, z: (torch.bmm(x, y), torch.baddbmm(z, x, y, beta=0.5, alpha=1.5), x @ y, torch.matmul(x[:, None], y[None]), x @ y[0]), f(2, 3, 4), f(2, 4, 5), f(2, 3, 5), core=True)
    equations = ["bij,bjk->bik", "bij,bjk->ik", "bij,bkj->bki", "bij->bj", "bij->jib", "bij,bij->b", "bij,j->bi", "bij,bjk,b->ki"]
    def sums(x, y):
        z = {"bij,bjk->bik": (x, y), "bij,bjk->ik": (x, y), "bij,bkj->bki": (x, y.transpose(1, 2)), "bij->bj": (x,), "bij->jib": (x,), "bij,bij->b": (x, x), "bij,j->bi": (x, x[0, 0]), "bij,bjk,b->ki": (x, y, x[:, 0, 0])}
        return *(torch.einsum(e, *z[e]) for e in equations), torch.einsum("...ij,...jk", x, y), torch.einsum("i,j->ij", x[0, 0], y[0, 0])
    case("einsum", sums, f(2, 3, 4), f(2, 4, 5), core=True)


def spatial():
    x1, x2, x3 = f(2, 4, 9), f(2, 4, 6, 7), f(1, 2, 4, 5, 6)
    convs = nn.ModuleList([nn.Conv2d(4, 6, 3), nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False), nn.Conv2d(4, 8, (1, 3), groups=2, dilation=(1, 2), padding=(0, 2)), nn.Conv2d(4, 4, 3, padding="same", groups=4), nn.Conv2d(4, 4, 2, padding="valid"), nn.Conv2d(4, 4, 4, padding="same")])
    class Convs(nn.Module):
        def __init__(self, layers):
            super().__init__()
            self.layers = layers
        def forward(self, x):
            return tuple(layer(x) for layer in self.layers)
    case("conv2d", Convs(convs), x2, core=True)
    case("conv2d_unbatched", nn.Conv2d(4, 3, 3), x2[0])
    case("conv2d_reflect", nn.Conv2d(4, 3, 3, padding=1, padding_mode="reflect"), x2)
    case("conv1d", Convs(nn.ModuleList([nn.Conv1d(4, 6, 3), nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2), nn.Conv1d(4, 4, 3, padding="same", groups=2)])), x1, core=True)
    case("conv3d", nn.Conv3d(2, 3, 2, stride=(1, 2, 1), padding=1), x3, core=True)
    case("conv_transpose", Convs(nn.ModuleList([nn.ConvTranspose2d(4, 3, 3), nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), nn.ConvTranspose2d(4, 2, 2, stride=2, dilation=2, bias=False)])), x2, core=True)
    case("conv_transpose1d", nn.ConvTranspose1d(4, 3, 4, stride=2, padding=1), x1, core=True)
    def pools(x):
        return F.max_pool2d(x, 2), F.max_pool2d(x, 3, stride=2, padding=1), F.max_pool2d(x, (2, 3), stride=(1, 2), dilation=(2, 1)), F.max_pool2d(x, 3, 2, ceil_mode=True), F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, stride=2, padding=1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, 2, divisor_override=3), F.max_pool1d(x[0], 2), F.avg_pool1d(x[0], 2), *F.max_pool2d(x, 2, return_indices=True), F.max_pool3d(x[None], 2), F.avg_pool3d(x[None], 2), F.lp_pool2d(x, 2, 2)
    case("pools", pools, x2, core=True)
    def adaptive(x):
        return F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (4, 3)), F.adaptive_avg_pool2d(x, (3, 5)), F.adaptive_avg_pool2d(x, (None, 2)), F.adaptive_max_pool2d(x, 1), F.adaptive_max_pool2d(x, (3, 4)), F.adaptive_avg_pool1d(x[0], 5), F.adaptive_max_pool1d(x[0], 3)
    case("adaptive_pools", adaptive, x2)
    case("adaptive_average", lambda x: adaptive(x)[:4], x2, core=True)
    def resized(x):
        up = lambda mode, **more: F.interpolate(x, mode=mode, **more)
        return up("nearest", scale_factor=2), up("nearest", size=(5, 12)), up("nearest-exact", size=(5, 12)), up("bilinear", scale_factor=2), up("bilinear", size=(5, 12)), up("bilinear", size=(15, 4), align_corners=True), up("bicubic", scale_factor=2), up("bicubic", size=(5, 12), align_corners=True), up("bilinear", scale_factor=1.5), up("nearest", scale_factor=1.5), up("bilinear", scale_factor=1.7, recompute_scale_factor=True)
    case("resized", resized, x2, core=True)
    case("resized1d", lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=5, mode="linear")), x1, core=True)
    case("resized3d", lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(4, 5, 6), mode="trilinear")), x3)
    h = torch.export.Dim("h", min=4, max=60)
    case("resized_dynamic", lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, scale_factor=0.5), F.interpolate(x, scale_factor=2, mode="bilinear"), F.interpolate(x, size=(7, 7), mode="bilinear")), x2, dynamic=({2: h},))
    case("pools_dynamic", lambda x: (F.max_pool2d(x, 3, 1, 1), F.avg_pool2d(x, 3, 1, 1), F.adaptive_avg_pool2d(x, 1)), x2, dynamic=({2: h},))


def norms():
    def layers(x, w, b):
        return F.layer_norm(x, (4, 6)), F.layer_norm(x, (6,), w, b), F.layer_norm(x, (6,), w, None, 1e-3), F.rms_norm(x, (6,), w), F.rms_norm(x, (4, 6), eps=1e-3), F.group_norm(x, 2), F.group_norm(x, 4, w[:4], b[:4]), F.instance_norm(x), F.local_response_norm(x, 3)
    case("norms", layers, f(2, 4, 6), f(6), f(6, seed=2), core=True)
    case("batch_norm", lambda x, m, v, w, b: (F.batch_norm(x, m, v.abs() + 0.5, w, b), F.batch_norm(x, m, v.abs() + 0.5), F.batch_norm(x[:, :, 0], m, v.abs() + 0.5, w, b, eps=1e-3)), f(2, 4, 6), f(4), f(4, seed=1), f(4, seed=2), f(4, seed=3), core=True)
    case("instance_norm", nn.InstanceNorm2d(3, affine=True), f(2, 3, 4, 5), core=True)
    case("batch_norm_half", nn.BatchNorm2d(3).half(), f(2, 3, 4, 5).half())


def attention():
    q, k, v = f(2, 3, 5, 8), f(2, 3, 7, 8), f(2, 3, 7, 8, seed=3)
    def attend(q, k, v, mask, bias):
        return F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True), F.scaled_dot_product_attention(q, k, v, mask), F.scaled_dot_product_attention(q, k, v, bias), F.scaled_dot_product_attention(q, k, v, scale=0.3), F.scaled_dot_product_attention(q[0], k[0], v[0])
    mask = torch.ones(5, 7, dtype=torch.bool).tril(3)
    case("attention", attend, q, k, v, mask, f(2, 1, 5, 7), core=True)
    case("attention_grouped", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), f(2, 4, 5, 8), f(2, 2, 5, 8), f(2, 2, 5, 8, seed=1))
    s = torch.export.Dim("s", min=2, max=50)
    case("attention_dynamic", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), q, k[:, :, :5], v[:, :, :5], dynamic=({2: s}, {2: s}, {2: s}))


def outputs():
    case("inputs_returned", lambda x, y: (x, y + 1, None, x, 3), f(2, 3), f(3))
    case("dictionary", lambda x: {"a": x + 1, "b": [x * 2, (x, x - 1)]}, f(2, 3))
    case("constants_only", lambda x: torch.tensor([1, 2, 3]) + 0, f(2))
    case("scalars", lambda x, y: (x + y, x * 2, x.sum(), y.view(1), torch.stack([x, y])), torch.tensor(2.0), torch.tensor(3.0), core=True)
    case("empty", lambda x: (x[:0], x[:0].sum(0), torch.cat([x, x[:0]])), f(3, 4), core=True)
    case("integer_types", lambda a, b, c: (a + 1, b * 2, c - 1, a.float() + b), i(0, 9, 3, dtype=torch.uint8), i(-9, 9, 3, dtype=torch.int8), i(-9, 9, 3, dtype=torch.int16))
    case("doubles", nn.Linear(3, 2).double(), f(4, 3).double(), core=True)
    n = torch.export.Dim("n", min=2, max=9)
    m = torch.export.Dim("m", min=2, max=9)
    case("two_symbols", lambda x, y: (x @ y, x.shape[0] * y.sum(), torch.cat([x.flatten(), y.flatten()]), x.new_zeros(x.shape[0], y.shape[1])), f(4, 3), f(3, 5), dynamic=({0: n}, {1: m}), core=True)


def refusals():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))
        def forward(self, x):
            self.count.add_(1)
            return x * self.count
    refused("buffer_written", "it writes into the buffer `count`", Counter(), f(2))
    refused("buffer_written_core", "it writes into the buffer `count`", Counter(), f(2), core=True)
    def write_input(x):
        x.add_(1)
        return x * 2
    refused("input_written", "it writes into the input", write_input, f(2))
    refused("training", "it writes into the buffer `num_batches_tracked`", nn.BatchNorm1d(3).train(), f(4, 3))
    refused("random", "unsupported operators: aten.rand_like.default (1 use, first node `rand_like`)", lambda x: torch.rand_like(x) + x, f(2))
    refused("branches", "unsupported operators: higher_order.cond (1 use", lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)), f(2))
    refused("complex", "unsupported operators: aten.fft_fft.default", lambda x: torch.view_as_real(torch.fft.fft(x)), f(4))
    refused("masked", "a mask as indices", lambda x: x[x > 0], f(4))
    refused("embedding_bag", "unsupported operators: aten.embedding_bag.padding_idx", nn.EmbeddingBag(4, 2, mode="sum"), i(0, 4, 2, 3))
    refused("inverse", "unsupported operators: aten.linalg_inv", lambda x: torch.linalg.inv(x), f(3, 3))


def main(names):
    torch.manual_seed(0)
    for part in (nets, unary, binary, shapes, reductions, products, spatial, norms, attention, outputs, refusals):
        part()
    HERE.mkdir(exist_ok=True)
    wanted = lambda name: not names or name in names
    for name, (module, inputs, dynamic, core) in CASES.items():
        if wanted(name):
            write(name, module, inputs, dynamic, core)
    for name, (words, module, inputs, dynamic, core) in REFUSED.items():
        if wanted(name):
            export(f"refused_{name}", module, inputs, dynamic, core)
    if not names:
        lines = [f"{name}: {words}\n" for name, (words, *_) in REFUSED.items()]
        (HERE / "refused.txt").write_text("".join(lines))


def export(name, module, inputs, dynamic, core):
    if not isinstance(module, nn.Module):
        module = Function(module)
    module = module if name == "refused_training" else module.eval()
    if dynamic is not None and isinstance(module, Function):
        dynamic = (dynamic,)
    clones = tuple(x.clone() for x in inputs)
    program = torch.export.export(module, clones, dynamic_shapes=dynamic, strict=False)
    if core:
        program = program.run_decompositions()
    for node in program.graph.nodes:
        for key in ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn"):
            node.meta.pop(key, None)
    if name not in STORED:
        program._example_inputs = None
    path = HERE / f"{name}.pt2"
    torch.export.save(program, path)
    if name not in STORED:
        deflate(path)
    return module


def deflate(path):
    with zipfile.ZipFile(path) as stored:
        entries = [(entry, stored.read(entry)) for entry in stored.namelist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as deflated:
        for entry, data in entries:
            # The same bytes whenever it is written.
            deflated.writestr(zipfile.ZipInfo(entry), data, zipfile.ZIP_DEFLATED)


def write(name, module, inputs, dynamic, core):
    module = export(name, module, inputs, dynamic, core)
    if core:
        return
    with torch.no_grad():
        answer = module(*(x.clone() for x in inputs))
    flat, _ = torch.utils._pytree.tree_flatten(answer)
    arrays = {f"in{n}": x for n, x in enumerate(inputs)}
    flat = [torch.as_tensor(x) for x in flat if x is not None]
    arrays |= {f"out{n}": x for n, x in enumerate(flat)}
    np.savez_compressed(HERE / f"{name}.npz", **{key: array(x.detach()) for key, x in arrays.items()})


def array(x):
    """NumPy has no bfloat16: its values are exact in float32."""
    return np.array((x.float() if x.dtype == torch.bfloat16 else x).numpy(), order="C")


if __name__ == "__main__":
    main(sys.argv[1:])
