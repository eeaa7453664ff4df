"""Tensor expressions: kernels written as what each element is, as with TVM's `tvm.te`.

A tensor is a placeholder or computed from others; `create_prim_func` writes the kernel as TVMScript, with a block for each
computed tensor, as TVM's `te.create_prim_func` does. `module` is a model that calls it, and `reflex.op.register` takes it as the kernel
of an operator.

>>> import numpy as np, reflex
>>> from reflex import te
>>> n = te.var("n")
>>> a, b = te.placeholder((n, 8), name="A"), te.placeholder((8, 4), name="B")
>>> k = te.reduce_axis((0, 8), name="k")
>>> c = te.compute((n, 4), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
>>> y = te.compute((n, 4), lambda i, j: te.maximum(c[i, j], 0.0), name="Y")
>>> x, w = np.ones((3, 8), "float32"), np.full((8, 4), -0.5, "float32")
>>> reflex.compile(te.module([a, b, y])).session()["main"](x, w).numpy().shape
(3, 4)
"""
from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

__all__ = [
    "Expr", "Tensor", "abs", "all", "any", "compute", "const", "cos", "create_prim_func", "erf", "exp", "floor",
    "if_then_else", "log", "max", "maximum", "min", "minimum", "module", "placeholder", "power", "prod", "reduce_axis", "rsqrt",
    "sigmoid", "sin", "sqrt", "sum", "tanh", "var",
]


class Expr:
    """An element, an index or a truth value: how it is written, and its type.

    >>> te.var("n") * 2 + 1
    ((n * 2) + 1)
    """

    def __init__(self, text: str, dtype: str, tensors: tuple[Tensor, ...] = (), names: frozenset[str] = frozenset()):
        self.text = text
        self.dtype = dtype
        self._tensors = tensors
        self._names = names

    def __repr__(self) -> str:
        return self.text

    def _with(self, operator: str, other: Any, dtype: str | None = None) -> Expr:
        other = _expr(other, self.dtype)
        _same(self, other)
        return _made(f"({self.text} {operator} {other.text})", dtype or self.dtype, self, other)

    def _behind(self, operator: str, other: Any) -> Expr:
        return _expr(other, self.dtype)._with(operator, self)

    def __add__(self, other: Any) -> Expr:
        return self._with("+", other)

    def __sub__(self, other: Any) -> Expr:
        return self._with("-", other)

    def __mul__(self, other: Any) -> Expr:
        return self._with("*", other)

    def __truediv__(self, other: Any) -> Expr:
        if not self.dtype.startswith(("float", "bfloat")):
            raise TypeError(f"{self.dtype} is divided by //")
        return self._with("/", other)

    def __floordiv__(self, other: Any) -> Expr:
        return self._with("//", other)

    def __mod__(self, other: Any) -> Expr:
        return self._with("%", other)

    def __radd__(self, other: Any) -> Expr:
        return self._behind("+", other)

    def __rsub__(self, other: Any) -> Expr:
        return self._behind("-", other)

    def __rmul__(self, other: Any) -> Expr:
        return self._behind("*", other)

    def __rtruediv__(self, other: Any) -> Expr:
        return _expr(other, self.dtype).__truediv__(self)

    def __neg__(self) -> Expr:
        return self * -1

    def __lt__(self, other: Any) -> Expr:
        return self._with("<", other, "bool")

    def __le__(self, other: Any) -> Expr:
        return self._with("<=", other, "bool")

    def __gt__(self, other: Any) -> Expr:
        return _expr(other, self.dtype)._with("<", self, "bool")

    def __ge__(self, other: Any) -> Expr:
        return _expr(other, self.dtype)._with("<=", self, "bool")

    def equal(self, other: Any) -> Expr:
        """Whether two elements are equal.

        >>> te.var("n").equal(3)
        (n == 3)
        """
        return self._with("==", other, "bool")

    def __bool__(self) -> bool:
        raise TypeError("an element's value is not known here: use te.if_then_else, te.all and te.any")

    def astype(self, dtype: str) -> Expr:
        """The element converted to another type.

        >>> te.var("n").astype("float32")
        T.Cast("float32", n)
        """
        return self if dtype == self.dtype else _made(f'T.Cast("{dtype}", {self.text})', dtype, self)


class _Axis(Expr):
    """An iterator of a block."""

    def __init__(self, name: str, extent: Expr, kind: str):
        super().__init__(f"v_{name}", "int32" if extent.dtype != "int64" else "int64")
        self.name = name
        self.extent = extent
        self.kind = kind


class _Reducer(NamedTuple):
    """What joins elements, and the element that it begins with."""

    join: str
    first: Callable[[str], str]


class _Reduce(Expr):
    """A reduction, which is all of an element."""

    def __init__(self, reducer: _Reducer, value: Expr, axes: tuple[_Axis, ...]):
        super().__init__(value.text, value.dtype, value._tensors, value._names)
        self.reducer = reducer
        self.axes = axes


class Tensor:
    """A tensor: a placeholder or computed. `tensor[i, j]` is an element.

    >>> te.placeholder((2, 3), name="A")[0, 1]
    A[0, 1]
    """

    def __init__(self, name: str, shape: tuple[Expr, ...], dtype: str, axes: tuple[_Axis, ...], value: Expr | None):
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self._axes = axes
        self._value = value

    def __getitem__(self, at: Any) -> Expr:
        """The element at some indices.

        >>> te.placeholder((2, 3), name="A")[te.var("n"), 1]
        A[n, 1]
        """
        indices = [_expr(i, "int32") for i in (at if isinstance(at, tuple) else (at,))]
        if len(indices) != len(self.shape):
            raise IndexError(f"{self.name} has {len(self.shape)} dimensions, not {len(indices)}")
        text = f"{_Name(self)}[{', '.join(i.text for i in indices) or '()'}]"
        return _made(text, self.dtype, *indices, tensor=self)

    def __call__(self, *at: Any) -> Expr:
        return self[at]


class _Name:
    """Where the name of a tensor goes, which is known when the kernel is written."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor

    def __str__(self) -> str:
        return self.tensor.name


def _made(text: str, dtype: str, *parts: Expr, tensor: Tensor | None = None) -> Expr:
    for part in parts:
        if isinstance(part, _Reduce):
            raise ValueError("a reduction is all of an element: compute it as a tensor of its own")
    tensors = dict.fromkeys(t for part in parts for t in part._tensors)
    if tensor is not None:
        tensors[tensor] = None
    names = frozenset().union(*(part._names for part in parts))
    return Expr(text, dtype, tuple(tensors), names)


def _expr(value: Any, dtype: str) -> Expr:
    return value if isinstance(value, Expr) else const(value, dtype)


def _same(a: Expr, b: Expr) -> None:
    if a.dtype != b.dtype:
        raise TypeError(f"{a.text} is {a.dtype}, {b.text} is {b.dtype}: convert one with astype")


def const(value: float, dtype: str = "int32") -> Expr:
    """A constant.

    >>> te.const(2, "float32")
    T.float32(2.0)
    """
    if isinstance(value, bool) or dtype == "bool":
        return Expr(f"T.bool({bool(value)})", "bool")
    if dtype.startswith(("float", "bfloat")):
        number = float(value)
        text = repr(number) if math.isfinite(number) else f'"{number}"'
        return Expr(f"T.{dtype}({text})", dtype)
    if int(value) != value:
        raise TypeError(f"{value} is no {dtype}")
    return Expr(str(int(value)) if dtype == "int32" else f"T.{dtype}({int(value)})", dtype)


def var(name: str, dtype: str = "int32") -> Expr:
    """A dimension that the arguments of a call decide.

    >>> te.var("n")
    n
    """
    if not name.isidentifier():
        raise ValueError(f"{name!r} is no name")
    return Expr(name, dtype, (), frozenset([f"{name} = T.{dtype}()"]))


def _shape(shape: Any) -> tuple[Expr, ...]:
    return tuple(_expr(n, "int32") for n in (shape if isinstance(shape, (tuple, list)) else (shape,)))


def placeholder(shape: Any, dtype: str = "float32", name: str = "placeholder") -> Tensor:
    """A tensor that the caller gives.

    >>> te.placeholder((4,), "int32", "X").dtype
    'int32'
    """
    return Tensor(name, _shape(shape), dtype, (), None)


def reduce_axis(dom: tuple[Any, Any], name: str = "rv") -> Expr:
    """An axis that a reduction goes along, from 0.

    >>> te.reduce_axis((0, 8), name="k")
    v_k
    """
    first, last = dom
    if not isinstance(first, int) or first != 0:
        raise ValueError("an axis of a reduction begins at 0")
    return _Axis(name, _expr(last, "int32"), "R")


def compute(shape: Any, fcompute: Callable[..., Any], name: str = "compute") -> Tensor:
    """A tensor whose element at some indices is what `fcompute` gives for them.

    >>> a = te.placeholder((4,), name="A")
    >>> te.compute((4,), lambda i: a[i] * 2.0, name="B").shape
    (4,)
    """
    extents = _shape(shape)
    params = list(inspect.signature(fcompute).parameters.values())
    if len(params) == 1 and params[0].kind is inspect.Parameter.VAR_POSITIONAL:
        names = [f"i{at}" for at in range(len(extents))]
    else:
        names = [param.name for param in params]
    if len(names) != len(extents):
        raise ValueError(f"{name} has {len(extents)} dimensions, its function {len(names)} parameters")
    axes = tuple(_Axis(n, extent, "S") for n, extent in zip(names, extents))
    value = fcompute(*axes)
    if not isinstance(value, Expr):
        value = const(value, "float32")
    reduced = value.axes if isinstance(value, _Reduce) else ()
    return Tensor(name, extents, value.dtype, axes + reduced, value)


def _reduction(reducer: _Reducer, value: Any, axis: Any) -> Expr:
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    if not axes or not _all(isinstance(a, _Axis) and a.kind == "R" for a in axes):
        raise ValueError("a reduction goes along axes of te.reduce_axis")
    return _Reduce(reducer, _made(value.text, value.dtype, value), axes)


def _bound(dtype: str, least: bool) -> str:
    largest = {"float64": 1.7976931348623157e308, "float32": 3.4028234663852886e38, "float16": 65504.0}
    if dtype in largest:
        return const(-largest[dtype] if least else largest[dtype], dtype).text
    found = re.fullmatch(r"(u?)int(\d+)", dtype)
    if found is None:
        raise TypeError(f"{dtype} has no least and greatest element here")
    bits = int(found[2])
    unsigned = bool(found[1])
    if least:
        return const(0 if unsigned else -(2 ** (bits - 1)), dtype).text
    return const(2 ** (bits if unsigned else bits - 1) - 1, dtype).text


_all = all
_SUM = _Reducer("{} + {}", lambda dtype: const(0, dtype).text)
_PROD = _Reducer("{} * {}", lambda dtype: const(1, dtype).text)
_MAX = _Reducer("T.max({}, {})", lambda dtype: _bound(dtype, True))
_MIN = _Reducer("T.min({}, {})", lambda dtype: _bound(dtype, False))


def sum(expr: Expr, axis: Any) -> Expr:
    """The sum along axes, in their order.

    >>> a, k = te.placeholder((4,), name="A"), te.reduce_axis((0, 4), name="k")
    >>> te.compute((), lambda: te.sum(a[k], axis=k), name="S").shape
    ()
    """
    return _reduction(_SUM, expr, axis)


def prod(expr: Expr, axis: Any) -> Expr:
    """The product along axes.

    >>> a, k = te.placeholder((4,), name="A"), te.reduce_axis((0, 4), name="k")
    >>> te.compute((), lambda: te.prod(a[k], axis=k), name="P").dtype
    'float32'
    """
    return _reduction(_PROD, expr, axis)


def max(expr: Expr, axis: Any) -> Expr:
    """The greatest element along axes.

    >>> a, k = te.placeholder((4,), "int8", "A"), te.reduce_axis((0, 4), name="k")
    >>> te.compute((), lambda: te.max(a[k], axis=k), name="M").dtype
    'int8'
    """
    return _reduction(_MAX, expr, axis)


def min(expr: Expr, axis: Any) -> Expr:
    """The least element along axes.

    >>> a, k = te.placeholder((4,), name="A"), te.reduce_axis((0, 4), name="k")
    >>> te.compute((), lambda: te.min(a[k], axis=k), name="M").dtype
    'float32'
    """
    return _reduction(_MIN, expr, axis)


def _of_two(function: str, a: Any, b: Any) -> Expr:
    a, b = (_expr(x, b.dtype if isinstance(b, Expr) else a.dtype) for x in (a, b))
    _same(a, b)
    return _made(f"T.{function}({a.text}, {b.text})", a.dtype, a, b)


def maximum(a: Any, b: Any) -> Expr:
    """The greater one of two elements, TVM's `max` of expressions.

    >>> te.maximum(te.var("n"), 0)
    T.max(n, 0)
    """
    return _of_two("max", a, b)


def minimum(a: Any, b: Any) -> Expr:
    """The lesser one of two elements, TVM's `min` of expressions.

    >>> te.minimum(te.var("n"), 0)
    T.min(n, 0)
    """
    return _of_two("min", a, b)


def power(a: Any, b: Any) -> Expr:
    """A power.

    >>> te.power(te.const(2, "float32"), 0.5)
    T.pow(T.float32(2.0), T.float32(0.5))
    """
    return _of_two("pow", a, b)


def if_then_else(cond: Expr, t: Any, f: Any) -> Expr:
    """One of two elements, of which the other one is not computed.

    >>> te.if_then_else(te.var("n") < 3, te.const(1.0, "float32"), 0.0)
    T.if_then_else((n < 3), T.float32(1.0), T.float32(0.0))
    """
    t, f = (_expr(x, f.dtype if isinstance(f, Expr) else t.dtype if isinstance(t, Expr) else "float32") for x in (t, f))
    _same(t, f)
    return _made(f"T.if_then_else({cond.text}, {t.text}, {f.text})", t.dtype, cond, t, f)


def _joined(word: str, conditions: Sequence[Expr]) -> Expr:
    text = conditions[0].text
    for condition in conditions[1:]:
        text = f"({text} {word} {condition.text})"
    return _made(text, "bool", *conditions)


def all(*conditions: Expr) -> Expr:
    """Whether all conditions hold.

    >>> te.all(te.var("n") < 3, te.var("m") < 3)
    ((n < 3) and (m < 3))
    """
    return _joined("and", conditions)


def any(*conditions: Expr) -> Expr:
    """Whether some condition holds.

    >>> te.any(te.var("n") < 3, te.var("m") < 3)
    ((n < 3) or (m < 3))
    """
    return _joined("or", conditions)


def _function(name: str, about: str) -> Callable[[Expr], Expr]:
    def function(x: Expr) -> Expr:
        return _made(f"T.{name}({x.text})", x.dtype, x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{about}

    >>> te.{name}(te.const(1, "float32"))
    T.{name}(T.float32(1.0))
    """
    return function


abs = _function("abs", "The absolute value.")
cos = _function("cos", "The cosine.")
erf = _function("erf", "The error function.")
exp = _function("exp", "The exponential function.")
floor = _function("floor", "The greatest integer that is not greater.")
log = _function("log", "The natural logarithm.")
rsqrt = _function("rsqrt", "One over the square root.")
sigmoid = _function("sigmoid", "The logistic function.")
sin = _function("sin", "The sine.")
sqrt = _function("sqrt", "The square root.")
tanh = _function("tanh", "The hyperbolic tangent.")


def _computed(args: Sequence[Tensor]) -> list[Tensor]:
    """The tensors that are computed, each after those that it reads."""
    order: dict[Tensor, None] = {}

    def visit(tensor: Tensor) -> None:
        if tensor in order or tensor._value is None:
            return
        for read in tensor._value._tensors:
            visit(read)
        order[tensor] = None

    for tensor in args:
        visit(tensor)
    for tensor in order:
        reads = () if tensor._value is None else tensor._value._tensors
        missing = [t.name for t in reads if t._value is None and t not in args]
        if missing:
            raise ValueError(f"{tensor.name} reads the placeholder {missing[0]}, which is no argument")
    return list(order)


def _block(tensor: Tensor) -> list[str]:
    """The loops and the block of a computed tensor."""
    value, axes = tensor._value, tensor._axes
    if value is None:
        return []
    lines = []
    indent = ""
    extents = ", ".join(a.extent.text for a in axes)
    if len(axes) == 1:
        lines.append(f"for {axes[0].name} in range({extents}):")
    elif axes:
        lines.append(f"for {', '.join(a.name for a in axes)} in T.grid({extents}):")
    indent = "    " if axes else ""
    lines.append(f'{indent}with T.sblock("{tensor.name}"):')
    indent += "    "
    if len(axes) == 1:
        kind = {"S": "spatial", "R": "reduce"}[axes[0].kind]
        lines.append(f"{indent}{axes[0].text} = T.axis.{kind}({extents}, {axes[0].name})")
    elif axes:
        kinds = "".join(a.kind for a in axes)
        names = ", ".join(a.name for a in axes)
        lines.append(f'{indent}{", ".join(a.text for a in axes)} = T.axis.remap("{kinds}", [{names}])')
    else:
        lines.append(f"{indent}vi = T.axis.spatial(1, 0)")
    at = ", ".join(a.text for a in axes if a.kind == "S") or "()"
    here = f"{tensor.name}[{at}]"
    if isinstance(value, _Reduce):
        lines += [f"{indent}with T.init():", f"{indent}    {here} = {value.reducer.first(tensor.dtype)}"]
        lines.append(f"{indent}{here} = {value.reducer.join.format(here, value.text)}")
    else:
        lines.append(f"{indent}{here} = {value.text}")
    return lines


def _dims(tensor: Tensor) -> str:
    dims = ", ".join(n.text for n in tensor.shape)
    return f"({dims},)" if len(tensor.shape) == 1 else f"({dims})"


def create_prim_func(args: Sequence[Tensor], name: str = "main") -> str:
    """The kernel over these tensors, placeholders and results, as TVMScript. What they are computed from and is no argument
    is an intermediate.

    >>> a = te.placeholder((4,), name="A")
    >>> b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    >>> print(te.create_prim_func([a, b]))
    @T.prim_func(s_tir=True)
    def main(var_A: T.handle, var_B: T.handle):
        T.func_attr({"tirx.noalias": True})
        A = T.match_buffer(var_A, (4,), "float32")
        B = T.match_buffer(var_B, (4,), "float32")
        for i in range(4):
            with T.sblock("B"):
                v_i = T.axis.spatial(4, i)
                B[v_i] = (A[v_i] + T.float32(1.0))
    <BLANKLINE>
    """
    computed = _computed(args)
    tensors = [*args, *(t for t in computed if t not in args)]
    names = [t.name for t in tensors]
    twice = [n for n in names if names.count(n) > 1]
    if twice:
        raise ValueError(f"two tensors are named {twice[0]!r}")
    lines = ['    T.func_attr({"tirx.noalias": True})']
    symbols = dict.fromkeys(line for t in tensors for n in t.shape for line in sorted(n._names))
    lines += [f"    {symbol}" for symbol in symbols]
    lines += [f'    {t.name} = T.match_buffer(var_{t.name}, {_dims(t)}, "{t.dtype}")' for t in args]
    lines += [f'    {t.name} = T.sblock_alloc_buffer({_dims(t)}, "{t.dtype}")' for t in computed if t not in args]
    lines += [f"    {line}" for t in computed for line in _block(t)]
    params = ", ".join(f"var_{t.name}: T.handle" for t in args)
    return f"@T.prim_func(s_tir=True)\ndef {name}({params}):\n" + "\n".join(lines) + "\n"


def module(args: Sequence[Tensor], name: str = "kernel") -> str:
    """A model, as TVMScript, whose function `main` takes the placeholders and returns the computed tensors among `args`.

    >>> a = te.placeholder((4,), name="A")
    >>> b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    >>> reflex.compile(te.module([a, b])).session()["main"](np.zeros(4, "float32")).numpy()
    array([1., 1., 1., 1.], dtype=float32)
    """
    inputs, outputs = ([t for t in args if (t._value is None) is given] for given in (True, False))
    if not inputs or not outputs:
        raise ValueError("a model has inputs and results")

    def annotation(tensor: Tensor) -> str:
        dims = ", ".join(f'"{n.text}"' if n._names else n.text for n in tensor.shape)
        comma = "," if len(tensor.shape) == 1 else ""
        return f'R.Tensor(({dims}{comma}), "{tensor.dtype}")'

    kernel = create_prim_func([*inputs, *outputs], name).replace("T.int32()", "T.int64()")
    body = "\n".join(f"    {line}" for line in kernel.splitlines())
    params = ", ".join(f"{t.name}: {annotation(t)}" for t in inputs)
    results = ", ".join(annotation(t) for t in outputs)
    results = results if len(outputs) == 1 else f"[{results}]"
    given = ", ".join(t.name for t in inputs)
    call = f"R.call_tir(cls.{name}, ({given},), out_sinfo={results})"
    return (
        f"@I.ir_module\nclass Module:\n{body}\n    @R.function\n    def main({params}):\n"
        f"        cls = Module\n        return {call}\n"
    )
