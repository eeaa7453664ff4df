"""Patterns over dataflow, with the names of `tvm.relax.dpl`, and what they are for: calls of libraries and of
functions that external code generators make, in place of what a pattern matches.

>>> import numpy as np, reflex
>>> from reflex import dpl
>>> script = '''
... @I.ir_module
... class Module:
...     @R.function
...     def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32")):
...         y = R.matmul(x, w)
...         z = R.nn.relu(y)
...         return z
... '''
>>> product = dpl.is_op("relax.matmul")(dpl.wildcard(), dpl.wildcard())
>>> pattern = dpl.is_op("relax.nn.relu")(product)
>>> [match["values"] for match in dpl.find(script, product | pattern)]
[['y'], ['y', 'z']]
>>> def library(x, w):
...     return tvm_ffi.from_dlpack(np.maximum(np.from_dlpack(x) @ np.from_dlpack(w), 0))
>>> program = reflex.compile(script, dispatch=[dpl.Dispatch("mine.matmul_relu", pattern, packed=library)])
>>> float(program.session()["main"](np.ones((2, 4), "float32"), -np.eye(4, dtype="float32")).numpy().max())
0.0

A pattern matches what `reflex.inspect` shows: operators by their names there, with these operands and
attributes. One that occurs twice in another stands for one value.
"""
from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tvm_ffi

from ._library import LIBRARY as _reflex

__all__ = [
    "Dispatch",
    "Pattern",
    "find",
    "find_together",
    "function",
    "function_module",
    "has_attr",
    "has_dtype",
    "is_call_packed",
    "is_call_tir",
    "is_const",
    "is_gv",
    "is_op",
    "is_shape",
    "is_tuple",
    "is_tuple_get_item",
    "is_unordered_tuple",
    "is_var",
    "make_fused_bias_activation_pattern",
    "reject",
    "rewrite_bindings",
    "rewrite_call",
    "wildcard",
]


class Pattern:
    """A pattern. `p(a, b)` is a call with operands, `p | q`, `p & q` and `~p` combine, `p ^ q` is a `p` that is used by
    a `q`, `p >> q` one that nothing else uses.

    >>> is_op("relax.add")(wildcard(), is_const()) | is_op("relax.subtract")
    <reflex.dpl.Pattern or>
    """

    def __init__(self, kind: str, **fields: Any) -> None:
        self._kind = kind
        self._fields = fields

    def __repr__(self) -> str:
        return f"<reflex.dpl.Pattern {self._kind}>"

    def __call__(self, *args: Pattern, varg_default_wildcard: bool = False) -> Pattern:
        """The same call with patterns of its operands, or of the first ones.

        >>> is_op("relax.nn.relu")(wildcard())
        <reflex.dpl.Pattern op>
        """
        if self._kind in ("function", "global_var", "extern_func"):
            return Pattern("call_function", function=self, args=list(args), more=varg_default_wildcard)
        if "args" not in self._fields:
            raise TypeError(f"only patterns of calls and functions have operands, not {self!r}")
        return Pattern(self._kind, **{**self._fields, "args": list(args), "more": varg_default_wildcard})

    def __or__(self, other: Pattern) -> Pattern:
        return Pattern("or", left=self, right=other)

    def __and__(self, other: Pattern) -> Pattern:
        return Pattern("and", left=self, right=other)

    def __invert__(self) -> Pattern:
        return Pattern("not", pattern=self)

    def __xor__(self, other: Pattern) -> Pattern:
        return self.used_by(other)

    def __rshift__(self, other: Pattern) -> Pattern:
        return self.only_used_by(other)

    def __getitem__(self, index: int) -> Pattern:
        """A field of the tuple, or a result of the call.

        >>> is_op("relax.topk")[0]
        <reflex.dpl.Pattern tuple_get_item>
        """
        return is_tuple_get_item(self, index)

    def has_dtype(self, dtype: str) -> Pattern:
        """The same, of an element type.

        >>> wildcard().has_dtype("float32")
        <reflex.dpl.Pattern dtype>
        """
        return Pattern("dtype", pattern=self, dtype=dtype)

    def has_shape(self, shape: Iterable[int | None]) -> Pattern:
        """The same, of a shape; None is any extent.

        >>> wildcard().has_shape([None, 4])
        <reflex.dpl.Pattern shape>
        """
        return Pattern("shape", pattern=self, dims=list(shape))

    def has_attr(self, attrs: Mapping[str, Any]) -> Pattern:
        """The same, with attributes of these values.

        >>> is_op("relax.nn.softmax").has_attr({"axis": 1})
        <reflex.dpl.Pattern attrs>
        """
        return Pattern("attrs", pattern=self, attrs=dict(attrs))

    def same_shape_as(self, *others: Pattern) -> Pattern:
        """The same, if it has the shape of what each of the others stands for: parts of the same pattern, or of one
        that `find_together` takes with it.

        >>> left = wildcard()
        >>> is_op("relax.add")(left, wildcard().same_shape_as(left))
        <reflex.dpl.Pattern op>
        """
        return Pattern("same_shape", pattern=self, others=list(others))

    def dup(self) -> Pattern:
        """A pattern of the same kind that may stand for another value; its parts stay the same.

        >>> wildcard().dup()
        <reflex.dpl.Pattern wildcard>
        """
        return Pattern(self._kind, **self._fields)

    def used_by(self, other: Pattern) -> Pattern:
        """What `other` matches where this is among its operands.

        >>> is_op("relax.matmul").used_by(is_op("relax.add"))
        <reflex.dpl.Pattern chain>
        """
        return self._linked(other, False)

    def only_used_by(self, other: Pattern) -> Pattern:
        """What `other` matches where this is among its operands and nothing else uses it.

        >>> is_op("relax.matmul").only_used_by(is_op("relax.add"))
        <reflex.dpl.Pattern chain>
        """
        return self._linked(other, True)

    def _linked(self, other: Pattern, only: bool) -> Pattern:
        def parts(of: Pattern) -> tuple[list[Pattern], list[bool]]:
            return (of._fields["patterns"], of._fields["only"]) if of._kind == "chain" else ([of], [])

        (own, links), (more, after) = parts(self), parts(other)
        return Pattern("chain", patterns=[*own, *more], only=[*links, only, *after])


def wildcard() -> Pattern:
    """Matches everything.

    >>> wildcard()
    <reflex.dpl.Pattern wildcard>
    """
    return Pattern("wildcard")


def is_const() -> Pattern:
    """Matches constants.

    >>> is_const()
    <reflex.dpl.Pattern const>
    """
    return Pattern("const")


def is_var(name: str = "") -> Pattern:
    """Matches parameters of the function: that of a name, or all.

    >>> is_var("x")
    <reflex.dpl.Pattern var>
    """
    return Pattern("var", name=name)


def is_dfv(name: str = "") -> Pattern:
    """Matches variables of a dataflow block: what a binding gives and the function does not return, by name, or all.

    >>> is_dfv()
    <reflex.dpl.Pattern dataflow_var>
    """
    return Pattern("dataflow_var", name=name)


def is_expr(expr: Any) -> Pattern:
    """Matches constants that are the same expression: an array, or what NumPy makes one of, with the same type, shape and
    bits.

    >>> import numpy as np
    >>> is_op("relax.add")(wildcard(), is_expr(np.float32(1)))
    <reflex.dpl.Pattern op>
    """
    import numpy as np

    array = np.ascontiguousarray(expr).reshape(np.shape(expr))
    return Pattern("literal", dtype=str(array.dtype), shape=list(array.shape), bytes=array.tobytes().hex())


def is_extern_func(name: str) -> Pattern:
    """Matches packed functions by name, as TVM's `ExternFuncPattern` does; calling the pattern matches their calls.

    >>> is_extern_func("library.scale")(wildcard())
    <reflex.dpl.Pattern call_function>
    """
    return Pattern("extern_func", name=name)


def is_op(name: str) -> Pattern:
    """Matches calls of an operator, whatever its operands; calling the pattern says which.

    >>> is_op("relax.matmul")
    <reflex.dpl.Pattern op>
    """
    return Pattern("op", name=name, args=None, more=False)


def is_call_packed(name: str, args: Sequence[Pattern] | None = None) -> Pattern:
    """Matches calls of a packed function.

    >>> is_call_packed("mine.f")
    <reflex.dpl.Pattern call_packed>
    """
    return Pattern("call_packed", name=name, args=None if args is None else list(args), more=False)


def is_call_tir(name: str = "", args: Sequence[Pattern] | None = None) -> Pattern:
    """Matches calls of a kernel: that of a name, or all.

    >>> is_call_tir()
    <reflex.dpl.Pattern call_tir>
    """
    return Pattern("call_tir", name=name, args=None if args is None else list(args), more=False)


def is_gv(name: str = "") -> Pattern:
    """Matches functions of the module as values: that of a name, or all; calling the pattern matches their calls.

    >>> is_gv("square")(wildcard())
    <reflex.dpl.Pattern call_function>
    """
    return Pattern("global_var", name=name)


def function(params: Sequence[Pattern] | None, body: Pattern) -> Pattern:
    """Matches functions of the module by patterns of their parameters, or None for any, and of their result, as TVM's
    `FunctionPattern` does; calling the pattern matches their calls. The parts stand for values of the function, which `find` does
    not show.

    >>> script = '''
    ... @I.ir_module
    ... class Module:
    ...     @R.function(private=True)
    ...     def square(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
    ...         return R.multiply(x, x)
    ...     @R.function
    ...     def main(x: R.Tensor((2,), "float32")):
    ...         cls = Module
    ...         y = cls.square(x)
    ...         return R.exp(y)
    ... '''
    >>> x = wildcard()
    >>> square = function([x], is_op("relax.multiply")(x, x))
    >>> [match["value"] for match in find(script, square(is_var("x")))]
    ['y']
    """
    return Pattern("function", params=None if params is None else list(params), body=body)


def is_tuple(fields: Sequence[Pattern]) -> Pattern:
    """Matches tuples, such as the operand of `concat`.

    >>> is_op("relax.concat")(is_tuple([wildcard(), wildcard()]))
    <reflex.dpl.Pattern op>
    """
    return Pattern("tuple", fields=list(fields))


def is_unordered_tuple(fields: Sequence[Pattern]) -> Pattern:
    """Matches tuples with these fields, of at most eight, in any order.

    >>> is_op("relax.concat")(is_unordered_tuple([is_const(), wildcard()]))
    <reflex.dpl.Pattern op>
    """
    return Pattern("unordered_tuple", fields=list(fields))


def is_tuple_get_item(tuple_value: Pattern, index: int | None = None) -> Pattern:
    """Matches a field of a tuple, or a result of an operator with several.

    >>> is_tuple_get_item(is_op("relax.topk"), 0)
    <reflex.dpl.Pattern tuple_get_item>
    """
    return Pattern("tuple_get_item", tuple=tuple_value, index=index)


def is_shape(shape: Iterable[int | None]) -> Pattern:
    """Matches a shape operand; None is any extent.

    >>> is_op("relax.reshape")(wildcard(), is_shape([None, 4]))
    <reflex.dpl.Pattern op>
    """
    return Pattern("shape_operand", dims=list(shape))


def has_dtype(dtype: str, pattern: Pattern | None = None) -> Pattern:
    """Matches what the pattern matches, of an element type.

    >>> has_dtype("float16")
    <reflex.dpl.Pattern dtype>
    """
    return (pattern or wildcard()).has_dtype(dtype)


def has_attr(attrs: Mapping[str, Any], pattern: Pattern | None = None) -> Pattern:
    """Matches what the pattern matches, with attributes of these values.

    >>> has_attr({"axis": 1})
    <reflex.dpl.Pattern attrs>
    """
    return (pattern or wildcard()).has_attr(attrs)


def reject(pattern: Pattern) -> Pattern:
    """Matches what the pattern does not.

    >>> reject(is_const())
    <reflex.dpl.Pattern not>
    """
    return ~pattern


def make_fused_bias_activation_pattern(
    op_name: str, with_bias: bool = False, activation: str | None = None
) -> Pattern:
    """An operator of two operands, with a bias added and an activation if asked for.

    >>> make_fused_bias_activation_pattern("relax.matmul", True, "relax.nn.relu")
    <reflex.dpl.Pattern op>
    """
    out = is_op(op_name)(wildcard(), wildcard())
    if with_bias:
        out = is_op("relax.add")(out, wildcard())
    return out if activation is None else is_op(activation)(out)


def _numbered(root: Pattern) -> tuple[dict[str, Any], dict[int, int]]:
    """A pattern as the library reads it, and the numbers of its nodes."""
    nodes, numbers = _nodes([root])
    return {"nodes": nodes, "root": numbers[id(root)]}, numbers


def _nodes(roots: Iterable[Pattern]) -> tuple[list[dict[str, Any]], dict[int, int]]:
    """The nodes of patterns, and their numbers."""
    nodes: list[dict[str, Any]] = []
    numbers: dict[int, int] = {}

    def add(pattern: Pattern) -> int:
        if id(pattern) not in numbers:
            fields = {name: plain(value) for name, value in pattern._fields.items()}
            nodes.append({"kind": pattern._kind, **fields})
            numbers[id(pattern)] = len(nodes) - 1
        return numbers[id(pattern)]

    def plain(value: Any) -> Any:
        if isinstance(value, Pattern):
            return add(value)
        return [plain(item) for item in value] if isinstance(value, list) else value

    for root in roots:
        add(root)
    return nodes, numbers


def find(script: str, pattern: Pattern) -> list[dict[str, Any]]:
    """Returns where a pattern matches in a module: `function`, the `value`, its `op`, and the `values` of all that it
    takes.

    >>> script = "@I.ir_module\\nclass Module:\\n    @R.function\\n" \\
    ...     "    def main(x: R.Tensor((2,), 'float32')):\\n        return R.exp(x)\\n"
    >>> find(script, is_op("relax.exp"))[0]["op"]
    'relax.exp'
    """
    return [{key: found for key, found in match.items() if key != "parts"} for match in _matches(script, pattern)]


def _matches(script: str, pattern: Pattern) -> list[dict[str, Any]]:
    """What `find` returns, with the `parts` of the pattern: the names of values that they stand for."""
    text, numbers = _numbered(pattern)
    parts = _parts([pattern], numbers)
    matches: list[dict[str, Any]] = json.loads(str(_reflex["match_pattern"](script, json.dumps(text))))
    for match in matches:
        match["parts"] = {parts[at]: name for at, name in enumerate(match["parts"]) if name is not None}
    return matches


def _parts(roots: Iterable[Pattern], numbers: Mapping[int, int]) -> dict[int, Pattern]:
    """Patterns and their parts by number."""
    parts: dict[int, Pattern] = {}

    def see(pattern: Pattern) -> None:
        if numbers[id(pattern)] not in parts:
            parts[numbers[id(pattern)]] = pattern
            for value in pattern._fields.values():
                for item in value if isinstance(value, list) else [value]:
                    if isinstance(item, Pattern):
                        see(item)

    for root in roots:
        see(root)
    return parts


def find_together(script: str, patterns: Sequence[Pattern]) -> list[dict[Pattern, str]]:
    """Returns the first match of all the patterns together, each at another value, in each function body that has one:
    the names of the values that they and their parts stand for. Patterns that share a part share its value, so this
    finds products of one input, the forks of TVM's `PatternContext`.

    >>> script = "@I.ir_module\\nclass Module:\\n    @R.function\\n" \\
    ...     "    def main(x: R.Tensor((2, 4), 'float32'), v: R.Tensor((4, 4), 'float32')):\\n" \\
    ...     "        p = R.matmul(x, v)\\n        q = R.matmul(x, v)\\n        return (p, q)\\n"
    >>> x = wildcard()
    >>> p, q = (is_op("relax.matmul")(x, wildcard()) for _ in range(2))
    >>> [[found[part] for part in (p, q, x)] for found in find_together(script, [p, q])]
    [['p', 'q', 'x']]
    """
    return [parts for _, parts in _together(script, patterns)]


def _together(script: str, patterns: Sequence[Pattern]) -> list[tuple[str, dict[Pattern, str]]]:
    """What `find_together` returns, after the name of the function."""
    nodes, numbers = _nodes(patterns)
    parts = _parts(patterns, numbers)
    text = json.dumps({"nodes": nodes, "roots": [numbers[id(pattern)] for pattern in patterns]})
    found = json.loads(str(_reflex["match_patterns"](script, text)))
    return [
        (each["function"], {parts[at]: name for at, name in enumerate(each["values"]) if name is not None})
        for each in found
    ]


def rewrite_call(
    pattern: Pattern, rewriter: Callable[[str, dict[Pattern, str]], str | None], script: str
) -> str:
    """Returns a module in which what a pattern matches is something else: `rewriter` gets the name of each value that
    matches and the names that the parts of the pattern stand for, and returns the expression that the value is from
    then on, or None to leave it. TVM's `rewrite_call` does this with a function and its nodes. Values are
    offered once; one that has no name in the text (`return R.sqrt(y)`) is an error. A pass in Python may return the
    result.

    >>> script = "@I.ir_module\\nclass Module:\\n    @R.function\\n" \\
    ...     "    def main(x: R.Tensor((2,), 'float32')):\\n        y = R.multiply(x, x)\\n        z = R.sqrt(y)\\n        return z\\n"
    >>> x = wildcard()
    >>> square = is_op("relax.multiply")(x, x)
    >>> text = rewrite_call(is_op("relax.sqrt")(square), lambda value, parts: f"R.abs({parts[x]})", script)
    >>> "= R.abs(x)" in text, "R.sqrt" in text
    (True, False)
    """
    from . import inspect

    text, offered = inspect(script), set()
    while True:
        for match in _matches(text, pattern):
            at = (match["function"], match["value"])
            if at in offered:
                continue
            offered.add(at)
            made = rewriter(match["value"], match["parts"])
            if made is not None:
                text = inspect(_rebound(text, *at, made))
                break
        else:
            return text


def rewrite_bindings(
    patterns: Sequence[Pattern], rewriter: Callable[[dict[Pattern, str]], Mapping[str, str]], script: str
) -> str:
    """Returns a module in which values that several patterns match together, as `find_together` says, are others:
    `rewriter` gets the names that the patterns and their parts stand for, and returns expressions by the names of values;
    none leaves them. It is asked again for what matches then, as TVM's `rewrite_bindings` does.

    >>> script = "@I.ir_module\\nclass Module:\\n    @R.function\\n" \\
    ...     "    def main(x: R.Tensor((2, 4), 'float32'), v: R.Tensor((4, 4), 'float32')):\\n" \\
    ...     "        p = R.matmul(x, v)\\n        q = R.matmul(x, v)\\n        return R.add(p, q)\\n"
    >>> x, v = wildcard(), wildcard()
    >>> p, q = (is_op("relax.matmul")(x, v) for _ in range(2))
    >>> text = rewrite_bindings([p, q], lambda parts: {parts[q]: parts[p]}, script)
    >>> text.count("R.matmul")
    1
    """
    from . import inspect

    text, offered = inspect(script), set()
    while True:
        for function, parts in _together(text, patterns):
            at = (function, *(parts[pattern] for pattern in patterns))
            if at in offered:
                continue
            offered.add(at)
            made = rewriter(parts)
            if made:
                for value, expression in made.items():
                    text = _rebound(text, function, value, expression)
                text = inspect(text)
                break
        else:
            return text


def _rebound(text: str, function: str, value: str, expression: str) -> str:
    """A printed module in which a value of a function is another expression."""
    if not value:
        raise ValueError(f"a value of `{function}` that matches has no name: it is to be bound to one first")
    start = re.search(rf"^    def {re.escape(function)}\(", text, re.MULTILINE)
    if start is None or "\n" in expression:
        raise ValueError(f"an expression for `{value}` of `{function}` has one line")
    end = re.compile(r"^    @", re.MULTILINE).search(text, start.end())
    body = text[start.start() : end.start() if end else len(text)]
    bound = re.compile(rf"^( +{re.escape(value)}(?:: .*?)? = ).*$", re.MULTILINE)
    changed, count = bound.subn(lambda line: line.group(1) + expression, body)
    if count != 1:
        raise ValueError(f"`{value}` is bound at {count} places of `{function}`")
    return text.replace(body, changed, 1)


def function_module(
    kind: str, functions: Mapping[str, Callable[..., Any]], saved: bytes | None = None
) -> tvm_ffi.Module:
    """Returns a module of these functions, as external code generators give one. With `saved` it is kept in
    artifacts; opening one calls the global function `ffi.Module.load_from_bytes.KIND` with these bytes.

    >>> function_module("docs.toy", {"one": lambda: 1})["one"]()
    1
    """
    listed = [item for name, run in functions.items() for item in (name, tvm_ffi.convert(run))]
    module: tvm_ffi.Module = _reflex["function_module"](kind, listed, saved)
    return module


class Dispatch:
    """Patterns, and what stands for what they match: `packed`, a callable or the name of a registered function, which
    takes the values that it reads in order, constants among them; or `external`, a code generator or its name.

    A code generator takes the symbol of the function that it makes, the region as TVMScript and what is known of it,
    and returns a module with a function of that name, or a function. The name of one stands for the global
    function `relax.ext.NAME`. `check` takes what is known of a region and its TVMScript, and says whether it is
    taken. `pattern` is one, or a list of alternatives, of which the earlier ones take first; a tuple in it has patterns
    that match together, as `find_together` does, and are one region. `annotations` names parts of the patterns, which `known["annotations"]` has: `shape`, `dtype`,
    `constant`, and `op` and `attrs` of what an operator computes.

    >>> Dispatch("mine.relu", is_op("relax.nn.relu"), packed="mine.relu")
    <reflex.dpl.Dispatch mine.relu>
    >>> x = wildcard()
    >>> both = tuple(is_op("relax.matmul")(x, wildcard()) for _ in range(2))
    >>> Dispatch("mine.products", [both, is_op("relax.matmul")], packed="mine.products")
    <reflex.dpl.Dispatch mine.products>
    """

    def __init__(
        self,
        name: str,
        pattern: Pattern | Sequence[Pattern | tuple[Pattern, ...]],
        packed: str | Callable[..., Any] | None = None,
        external: str | Callable[[str, str, dict[str, Any]], Any] | None = None,
        check: Callable[[dict[str, Any], str], bool] | None = None,
        annotations: Mapping[str, Pattern] | None = None,
    ) -> None:
        self.name = name
        choices = [pattern] if isinstance(pattern, Pattern) else list(pattern)
        together = [choice if isinstance(choice, tuple) else (choice,) for choice in choices]
        nodes, numbers = _nodes(part for parts in together for part in parts)
        text = {"nodes": nodes, "alternatives": [[numbers[id(part)] for part in parts] for parts in together]}
        functions: list[Any] = []
        description: dict[str, Any] = {"name": name, "pattern": text, "annotations": {}}
        for key, part in (annotations or {}).items():
            if id(part) not in numbers:
                raise ValueError(f"the annotation {key!r} is no part of the pattern {name!r}")
            description["annotations"][key] = numbers[id(part)]
        if callable(packed):
            description["packed"] = f"reflex.dispatch.{name}"
            _reflex["register_global_func"](description["packed"], tvm_ffi.convert(packed), True)
        elif packed is not None:
            description["packed"] = packed
        if callable(external):
            generate = external
            description["external"] = "external"
            functions += ["external", tvm_ffi.convert(
                lambda symbol, script, known: generate(str(symbol), str(script), json.loads(str(known)))
            )]
        elif external is not None:
            description["external"] = external
        if check is not None:
            decide = check
            description["check"] = "check"
            functions += ["check", tvm_ffi.convert(
                lambda known, script: bool(decide(json.loads(str(known)), str(script)))
            )]
        self.parts: tuple[str, list[Any]] = (json.dumps(description), functions)

    def __repr__(self) -> str:
        return f"<reflex.dpl.Dispatch {self.name}>"
