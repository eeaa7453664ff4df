"""Models written as modules, as in PyTorch and in TVM's `relax.frontend.nn`.

>>> from reflex import nn
>>> class Net(nn.Module):
...     def __init__(self):
...         self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 5, bias=False)
...     def forward(self, x):
...         return nn.op.nn.softmax(self.second(nn.op.nn.relu(self.first(x))), axis=-1)
>>> net = Net()
>>> [name for name, _ in net.named_parameters()]
['first.weight', 'first.bias', 'second.weight']
>>> weights = {name: np.ones(p.shape) for name, p in net.named_parameters()}
>>> net.load_state_dict(weights)
>>> program = net.export(x=nn.Input(("n", 8))).compile()
>>> float(program.session()["main"](np.ones((2, 8), "float32")).numpy()[0, 0])
0.20000000298023224

`forward` runs once, while the module is exported: each operator becomes a line of TVMScript, and a loop of
Python is unrolled. Every operator that TVMScript has (docs/limits.md) is `nn.op.<its name>`: `nn.op.mean(x,
axis=[-1])` writes `R.mean(x, axis=[-1])`. The compiler infers all types, so an operator that does not fit is
an error of `compile`, which names the line. Tuples are shapes, or tuples of tensors; lists are lists.
"""
from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from . import Program, load
from ._constants import Table
from ._trace import Input, Parameter, Tensor, Trace, call_packed, call_tir, cond, const, write

__all__ = [
    "Conv2d",
    "Embedding",
    "Exported",
    "GELU",
    "Input",
    "LayerNorm",
    "Linear",
    "Module",
    "ModuleList",
    "Parameter",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "Tensor",
    "call_packed",
    "call_tir",
    "cond",
    "const",
    "op",
]


class _Operators:
    """Every operator by its name in TVMScript.

    >>> from reflex import nn
    >>> class Net(nn.Module):
    ...     def forward(self, x):
    ...         return nn.op.nn.softmax(nn.op.mean(x, axis=[1]), axis=-1)
    >>> "R.nn.softmax(lv0, axis=-1)" in Net().export(x=nn.Input((2, 3, 8))).text
    True
    """

    def __init__(self, path: str = "") -> None:
        self._path = path

    def __getattr__(self, name: str) -> _Operators:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Operators(f"{self._path}.{name}" if self._path else name)

    def __call__(self, *args: Any, **named: Any) -> Tensor:
        return write(self._path, args, named)


op = _Operators()


@dataclass(frozen=True)
class Exported:
    """The text of a module, and the parameters that its functions take after their own inputs."""

    #: TVMScript, which TVM reads too.
    text: str
    #: For each function the paths of the parameters that it takes, by the names of the inputs.
    parameters: Mapping[str, Mapping[str, str]]

    def compile(self, **options: Any) -> Program:
        """Compiles the text. `options` are those of `reflex.load`.

        >>> exported = reflex.nn.ReLU().export(x=reflex.nn.Input(("n", 8)))
        >>> exported.compile(threads=2).functions
        ['main']
        """
        return load(self.text.encode(), format="py", **options)


class Module:
    """A part of a model: parameters and modules as attributes (or in lists of them), and `forward`."""

    def forward(self, *args: Any, **named: Any) -> Any:
        """Writes what the module computes; subclasses say what.

        >>> reflex.nn.Module().forward()
        Traceback (most recent call last):
            ...
        NotImplementedError: Module has no forward
        """
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.forward(*args, **named)

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Yields the parameters by path, in the order of the attributes. One that several attributes
        share has each of their paths.

        >>> [name for name, _ in reflex.nn.Linear(4, 2).named_parameters("layer.")]
        ['layer.weight', 'layer.bias']
        """
        yield from _parameters(vars(self).items(), prefix, ())

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Sets the data of parameters by path. If it is strict, every parameter has to be there, and
        nothing else.

        >>> reflex.nn.Linear(4, 2, bias=False).load_state_dict({"weight": np.zeros((2, 4))})
        >>> reflex.nn.Linear(4, 2).load_state_dict({"weight": np.zeros((2, 4))})
        Traceback (most recent call last):
            ...
        KeyError: 'no data for bias'
        """
        parameters = dict(self.named_parameters())
        missing = [name for name in parameters if name not in state]
        unknown = [name for name in state if name not in parameters]
        if strict and missing:
            raise KeyError(f"no data for {', '.join(missing)}")
        if strict and unknown:
            raise KeyError(f"no parameter {', '.join(unknown)}")
        for name, value in state.items():
            if name in parameters:
                try:
                    parameters[name].data = value
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None

    def state_dict(self) -> dict[str, np.ndarray[Any, Any] | None]:
        """Returns the data of the parameters by path.

        >>> list(reflex.nn.RMSNorm(4).state_dict())
        ['weight']
        """
        return {name: parameter.data for name, parameter in self.named_parameters()}

    def export(
        self,
        methods: Mapping[str, Mapping[str, Input]] | None = None,
        parameters: Literal["constants", "inputs"] = "constants",
        **inputs: Input,
    ) -> Exported:
        """Writes `forward` as the function `main`, with these inputs by position; or several methods, by
        name. Parameters are constants of the program, which need data; or inputs after the others.

        >>> layer = reflex.nn.Linear(8, 5, bias=False)
        >>> exported = layer.export(x=reflex.nn.Input(("n", 8)), parameters="inputs")
        >>> exported.parameters
        {'main': {'weight': 'weight'}}
        >>> exported.compile().inputs[1].shape
        (5, 8)
        """
        if parameters not in ("constants", "inputs"):
            raise ValueError(f'parameters={parameters!r}; use "constants" or "inputs"')
        if (methods is None) != bool(inputs):
            raise TypeError("export takes the inputs of forward, or the inputs of methods")
        paths: dict[int, str] = {}
        for path, parameter in self.named_parameters():
            paths.setdefault(id(parameter), path)
        table = Table(paths, parameters == "inputs")
        functions, dims, added = [], set(), {}
        kernels: dict[str, str] = {}
        for method, specs in (methods or {"forward": inputs}).items():
            name = "main" if method == "forward" else method
            if not name.isidentifier():
                raise ValueError(f"no method {method!r}")
            trace = Trace(specs, table, kernels)
            with trace.active():
                functions.append(trace.text(name, getattr(self, method)(*trace.inputs)))
            dims |= trace.dims
            added[name] = dict(trace.added)
        for kernel in set(kernels) & set(added):
            raise ValueError(f"a kernel and a function are called {kernel!r}")
        head = "".join(f'{dim} = TypeVar("{dim}")\n' for dim in sorted(dims))
        written = [textwrap.indent(text.strip("\n"), "    ") for text in kernels.values()]
        body = "\n\n".join([*written, *functions])
        return Exported(f"{table.text()}{head}@I.ir_module\nclass Module:\n{body}\n", added)


def _parameters(
    items: Any, prefix: str, outer: tuple[int, ...]
) -> Iterator[tuple[str, Parameter]]:
    for name, value in items:
        if isinstance(value, Parameter):
            yield f"{prefix}{name}", value
        elif isinstance(value, (Module, list, tuple)):
            if id(value) in outer:
                raise ValueError(f"the module {prefix}{name} holds itself")
            inner = vars(value).items() if isinstance(value, Module) else enumerate(value)
            if isinstance(value, ModuleList):
                inner = enumerate(value)
            yield from _parameters(inner, f"{prefix}{name}.", (*outer, id(value)))


class ModuleList(Module):
    """Modules by number.

    >>> len(reflex.nn.ModuleList([reflex.nn.ReLU(), reflex.nn.SiLU()]))
    2
    """

    def __init__(self, modules: Sequence[Module]) -> None:
        self._modules = list(modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: int) -> Module:
        """Returns a module.

        >>> type(reflex.nn.ModuleList([reflex.nn.ReLU()])[0]).__name__
        'ReLU'
        """
        return self._modules[index]

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Yields the parameters by path.

        >>> [name for name, _ in reflex.nn.ModuleList([reflex.nn.RMSNorm(4)]).named_parameters()]
        ['0.weight']
        """
        yield from _parameters(enumerate(self._modules), prefix, ())


class Sequential(ModuleList):
    """Modules one after the other.

    >>> net = reflex.nn.Sequential([reflex.nn.ReLU(), reflex.nn.SiLU()])
    >>> "R.nn.silu" in net.export(x=reflex.nn.Input(("n", 8))).text
    True
    """

    def forward(self, x: Tensor) -> Tensor:
        """Writes the modules one after the other.

        >>> reflex.nn.Sequential([]).forward("x")
        'x'
        """
        for module in self:
            x = module(x)
        return x


class Linear(Module):
    """`x @ weight.T + bias`; `weight` is [out_features, in_features], as in PyTorch."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, dtype: str = "float32"
    ) -> None:
        self.weight = Parameter((out_features, in_features), dtype)
        self.bias = Parameter((out_features,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Writes the product.

        >>> layer = reflex.nn.Linear(8, 5)
        >>> "R.matmul" in layer.export(x=reflex.nn.Input(("n", 8)), parameters="inputs").text
        True
        """
        y = x @ op.permute_dims(self.weight)
        return y if self.bias is None else y + self.bias


class Embedding(Module):
    """Rows of `weight`, [num_embeddings, embedding_dim], by number."""

    def __init__(self, num_embeddings: int, embedding_dim: int, dtype: str = "float32") -> None:
        self.weight = Parameter((num_embeddings, embedding_dim), dtype)

    def forward(self, ids: Tensor) -> Tensor:
        """Writes the look-up.

        >>> ids = reflex.nn.Input(("n",), "int64")
        >>> "R.take" in reflex.nn.Embedding(10, 4).export(ids=ids, parameters="inputs").text
        True
        """
        return op.take(self.weight, ids, axis=0)


class LayerNorm(Module):
    """Normalisation over the last axis, with `weight` and `bias`."""

    def __init__(self, size: int, eps: float = 1e-5, dtype: str = "float32") -> None:
        self.weight, self.bias = Parameter((size,), dtype), Parameter((size,), dtype)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Writes the normalisation.

        >>> x = reflex.nn.Input(("n", 8))
        >>> "R.nn.layer_norm" in reflex.nn.LayerNorm(8).export(x=x, parameters="inputs").text
        True
        """
        return op.nn.layer_norm(x, self.weight, self.bias, axes=[-1], epsilon=self.eps)


class RMSNorm(Module):
    """`x / sqrt(mean(x * x) + eps) * weight` over the last axis."""

    def __init__(self, size: int, eps: float = 1e-5, dtype: str = "float32") -> None:
        self.weight = Parameter((size,), dtype)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Writes the normalisation.

        >>> x = reflex.nn.Input(("n", 8))
        >>> "R.nn.rms_norm" in reflex.nn.RMSNorm(8).export(x=x, parameters="inputs").text
        True
        """
        return op.nn.rms_norm(x, self.weight, axes=[-1], epsilon=self.eps)


class Conv2d(Module):
    """Convolution of images [n, in_channels, h, w]; `weight` is [out, in / groups, kernel, kernel]."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        bias: bool = True,
        dtype: str = "float32",
    ) -> None:
        shape = (out_channels, in_channels // groups, kernel_size, kernel_size)
        self.weight = Parameter(shape, dtype)
        self.bias = Parameter((out_channels,), dtype) if bias else None
        self.stride, self.padding, self.groups = stride, padding, groups

    def forward(self, x: Tensor) -> Tensor:
        """Writes the convolution.

        >>> image = reflex.nn.Input((1, 3, 8, 8))
        >>> "R.nn.conv2d" in reflex.nn.Conv2d(3, 4, 3).export(x=image, parameters="inputs").text
        True
        """
        strides, padding = [self.stride] * 2, [self.padding] * 4
        y = op.nn.conv2d(x, self.weight, strides=strides, padding=padding, groups=self.groups)
        return y if self.bias is None else y + self.bias.reshape(1, self.bias.shape[0], 1, 1)


def _activation(name: str, operator: str) -> type[Module]:
    def forward(self: Module, x: Tensor) -> Tensor:
        return write(operator, (x,))

    forward.__doc__ = f"""Writes `R.{operator}`.

        >>> "R.{operator}" in reflex.nn.{name}().export(x=reflex.nn.Input((8,))).text
        True
        """
    members = {"forward": forward, "__doc__": f"`R.{operator}` as a module.", "__module__": __name__}
    return cast("type[Module]", type(name, (Module,), members))


ReLU = _activation("ReLU", "nn.relu")
SiLU = _activation("SiLU", "nn.silu")
GELU = _activation("GELU", "nn.gelu")
