"""Schedules of kernels by hand: TVM's `tvm.tir.Schedule`, checked step by step, kept as a trace.

In the examples, `script` is TVMScript of a matmul, whose kernel is `mat_mul`.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ._library import LIBRARY as _reflex


class Variable(str):
    """A block, a loop or a number of a schedule: the name that its trace has for it."""


class Block(Variable):
    """A block of a schedule."""


class Loop(Variable):
    """A loop of a schedule."""


class _Index(str):
    """An index in an index map, which writes itself down."""

    def _with(self, operator: str, other: Any) -> _Index:
        return _Index(f"({self} {operator} {other})")

    def _behind(self, operator: str, other: Any) -> _Index:
        return _Index(f"({other} {operator} {self})")

    def __add__(self, other: Any) -> _Index:
        return self._with("+", other)

    def __sub__(self, other: Any) -> _Index:
        return self._with("-", other)

    def __mul__(self, other: Any) -> _Index:
        return self._with("*", other)

    def __floordiv__(self, other: Any) -> _Index:
        return self._with("//", other)

    def __mod__(self, other: Any) -> _Index:
        return self._with("%", other)

    def __radd__(self, other: Any) -> _Index:
        return self._behind("+", other)

    def __rsub__(self, other: Any) -> _Index:
        return self._behind("-", other)

    def __rmul__(self, other: Any) -> _Index:
        return self._behind("*", other)


class Schedule:
    """The schedule of a kernel of a model: the kernel as the graph passes leave it, and the primitives
    applied to it. `model` is a path, or a model in memory as `compile` takes it; the options are those of
    `load`. An unknown kernel is an error that lists them.

    Each primitive is checked: one that cannot be shown to keep every bit of the results raises, and
    changes nothing. Those without a method of their own are reached by `apply`; `primitives()` lists
    all. What was applied is `trace`, which `load(..., schedules=[...])` replays.

    >>> script = "@I.ir_module\\nclass Module:\\n    @R.function\\n" \\
    ...     "    def main(x: R.Tensor((64, 32), 'float32')) -> R.Tensor((64, 32), 'float32'):\\n" \\
    ...     "        return R.multiply(x, R.const(3.0, 'float32'))\\n"
    >>> sch = reflex.Schedule(script, "mul")
    >>> block = sch.get_block("binary")
    >>> rows, columns = sch.get_loops(block)
    >>> outer, lanes = sch.split(columns, factors=[None, 8])
    >>> sch.vectorize(lanes)
    >>> sch.split(rows, factors=[None, None])
    Traceback (most recent call last):
        ...
    RuntimeError: split: one factor may be None, not two
    >>> print(sch.trace, end="")
    def mul(sch):
        b0 = sch.get_block("binary")
        l1, l2 = sch.get_loops(b0)
        l3, l4 = sch.split(l2, factors=[None, 8])
        sch.vectorize(l4)
    >>> program = reflex.compile(script, schedules=[sch])
    """

    def __init__(self, model: Any, kernel: str, **options: Any) -> None:
        from . import _custom, _load_arguments, _model

        data, kind = _model(model)
        data, plain, custom = _load_arguments(data, format=kind, **options)
        self._handle = _reflex["schedule"](data, *plain, *_custom(*custom), kernel)

    @property
    def trace(self) -> str:
        """The primitives applied so far, as a function of Python.

        >>> reflex.Schedule(script, "mat_mul").trace.startswith("def mat_mul(sch)")
        True
        """
        return str(self._handle("trace"))

    def as_text(self) -> str:
        """The kernel as scheduled so far, as TVMScript.

        >>> "T.sblock" in reflex.Schedule(script, "mat_mul").as_text()
        True
        """
        return str(self._handle("as_text"))

    def apply(self, primitive: str, *args: Any, **named: Any) -> list[Any]:
        """Applies a primitive by name, and returns the blocks, loops and numbers that it gives.

        >>> reflex.Schedule(script, "mat_mul").apply("get_output_blocks")
        ['b0']
        """
        words = [_text(value) for value in args]
        words += [f"{name}={_text(value)}" for name, value in named.items()]
        names = self._handle("apply", f"sch.{primitive}({', '.join(words)})")
        return [_variable(str(name)) for name in names]

    def get_block(self, name: str) -> Block:
        """The block of a name; `get_child_blocks`, `get_producers` and others are reached by `apply`.

        >>> sch = reflex.Schedule(script, "mat_mul")
        >>> sch.get_block("no block")
        Traceback (most recent call last):
            ...
        RuntimeError: get_block: no block "no block"; there are matmul
        """
        block: Block = self.apply("get_block", name)[0]
        return block

    def get_loops(self, block: Block) -> list[Loop]:
        """The loops around a block, outermost first.

        >>> sch = reflex.Schedule(script, "mat_mul")
        >>> sch.get_loops(sch.get_block("matmul"))
        ['l1', 'l2', 'l3']
        """
        return self.apply("get_loops", block)

    def split(self, loop: Loop, factors: Sequence[int | None]) -> list[Loop]:
        """Strip mining: the loop becomes loops of these extents, outermost first. One may be None.

        >>> sch = reflex.Schedule(script, "mat_mul")
        >>> i, j, k = sch.get_loops(sch.get_block("matmul"))
        >>> len(sch.split(k, [2, None, 2]))
        3
        """
        return self.apply("split", loop, factors=list(factors))

    def fuse(self, *loops: Loop) -> Loop:
        """Loops directly around each other become one.

        >>> sch = reflex.Schedule(script, "mat_mul")
        >>> i, j, k = sch.get_loops(sch.get_block("matmul"))
        >>> sch.fuse(i, j)
        'l4'
        """
        loop: Loop = self.apply("fuse", *loops)[0]
        return loop

    def reorder(self, *loops: Loop) -> None:
        """Loop interchange: the loops around each other in this order.

        >>> sch = reflex.Schedule(script, "mat_mul")
        >>> i, j, k = sch.get_loops(sch.get_block("matmul"))
        >>> sch.reorder(k, j)
        """
        self.apply("reorder", *loops)

    def parallel(self, loop: Loop) -> None:
        """Iterations are divided among threads.

        >>> sch = reflex.Schedule(script, "mat_mul")
        >>> sch.parallel(sch.get_loops(sch.get_block("matmul"))[0])
        """
        self.apply("parallel", loop)

    def vectorize(self, loop: Loop) -> None:
        """Iterations are lanes of a vector.

        >>> sch = reflex.Schedule(script, "mat_mul")
        >>> i, j, k = sch.get_loops(sch.get_block("matmul"))
        >>> sch.reorder(k, j)
        >>> sch.vectorize(j)
        """
        self.apply("vectorize", loop)

    def unroll(self, loop: Loop) -> None:
        """Iterations are written out.

        >>> sch = reflex.Schedule(script, "mat_mul")
        >>> sch.unroll(sch.get_loops(sch.get_block("matmul"))[2])
        """
        self.apply("unroll", loop)

    def bind(self, loop: Loop, thread_axis: str) -> None:
        """Iterations are blocks ("blockIdx.x") or threads ("threadIdx.x") of a GPU.

        >>> sch = reflex.Schedule(script, "mat_mul")
        >>> sch.bind(sch.get_loops(sch.get_block("matmul"))[0], "blockIdx.x")
        """
        self.apply("bind", loop, thread_axis)

    def compute_at(self, block: Block, loop: Loop) -> None:
        """A producer goes into a loop of its reader; `reverse_compute_at` is reached by `apply`.

        >>> sch = reflex.Schedule(script, "mat_mul")
        >>> block = sch.get_block("matmul")
        >>> copy = sch.cache_read(block, 0, "global")
        >>> sch.compute_at(copy, sch.get_loops(block)[0])
        """
        self.apply("compute_at", block, loop)

    def compute_inline(self, block: Block) -> None:
        """An elementwise producer goes into its readers; `reverse_compute_inline` is reached by `apply`.

        >>> sch = reflex.Schedule(script, "mat_mul")
        >>> block = sch.get_block("matmul")
        >>> sch.compute_inline(sch.cache_read(block, 0, "global"))
        """
        self.apply("compute_inline", block)

    def cache_read(self, block: Block, read_buffer_index: int | str, storage_scope: str) -> Block:
        """The block reads a copy of a buffer. Returns the block that copies.

        >>> sch = reflex.Schedule(script, "mat_mul")
        >>> sch.cache_read(sch.get_block("matmul"), 0, "global")
        'b1'
        """
        block = self.apply("cache_read", block, read_buffer_index, storage_scope)[0]
        return block

    def cache_write(self, block: Block, write_buffer_index: int | str, storage_scope: str) -> Block:
        """The block writes a buffer that is copied to its result. Returns the block that copies.

        >>> sch = reflex.Schedule(script, "mat_mul")
        >>> sch.cache_write(sch.get_block("matmul"), 0, "global")
        'b1'
        """
        block = self.apply("cache_write", block, write_buffer_index, storage_scope)[0]
        return block

    def decompose_reduction(self, block: Block, loop: Loop) -> Block:
        """The initialisation of a reduction becomes a block before a loop.

        >>> sch = reflex.Schedule(script, "mat_mul")
        >>> block = sch.get_block("matmul")
        >>> sch.decompose_reduction(block, sch.get_loops(block)[2])
        'b4'
        """
        init: Block = self.apply("decompose_reduction", block, loop)[0]
        return init

    def rfactor(self, loop: Loop) -> Block:
        """A reduction's loop becomes a dimension of partial results. Returns the block that makes them.
        The order of the sum changes, and with it, for all but minima and maxima, the last bits.

        >>> sch = reflex.Schedule(script, "mat_mul")
        >>> sch.rfactor(sch.get_loops(sch.get_block("matmul"))[2])
        'b4'
        """
        partial: Block = self.apply("rfactor", loop)[0]
        return partial

    def set_scope(self, block: Block, buffer_index: int | str, storage_scope: str) -> None:
        """The intermediate that a block writes moves to "global", "local" or "shared" memory.

        >>> sch = reflex.Schedule(script, "mat_mul")
        >>> copy = sch.cache_read(sch.get_block("matmul"), 0, "global")
        >>> sch.set_scope(copy, 0, "global")
        """
        self.apply("set_scope", block, buffer_index, storage_scope)

    def transform_layout(
        self, block: Block, buffer: str | tuple[str, int], index_map: Callable[..., Any]
    ) -> None:
        """The elements of an intermediate that a block reads or writes lie elsewhere: `index_map` takes an
        old index for each axis and gives the new ones.

        >>> sch = reflex.Schedule(script, "mat_mul")
        >>> copy = sch.cache_read(sch.get_block("matmul"), 1, "global")
        >>> sch.transform_layout(copy, ("write", 0), lambda i, j: (j, i))
        """
        self.apply("transform_layout", block, buffer=buffer, index_map=index_map)


def register_tensor_intrin(name: str, description: Any, implementation: Any) -> None:
    """Registers a tensor intrinsic, for the process: `apply("tensorize", loop, name)` replaces a nest that is the
    description by the implementation. Both are kernels over the same buffers of constant shapes, in TVMScript or as
    TVM's functions: the description is one nest of loops, which accesses each buffer at its loops.

    Both are run on random elements first; an implementation that differs in a bit is refused.

    >>> kernel = '''
    ... @T.prim_func(s_tir=True)
    ... def thrice(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
    ...     for i in {}(8):
    ...         Y[i] = X[i] * T.float32(3)
    ... '''
    >>> reflex.register_tensor_intrin("docs.thrice", kernel.format("range"), kernel.format("T.vectorized"))
    >>> reflex.register_tensor_intrin("docs.wrong", kernel.format("range"), kernel.format("T.vectorized").replace("(3)", "(5)"))
    Traceback (most recent call last):
        ...
    ValueError: tensor intrinsic "docs.wrong": the implementation computes something else than the description: \
element 0 of `Y` differs
    """
    texts = (
        function if isinstance(function, str) else str(function.script())
        for function in (description, implementation)
    )
    _reflex["register_tensor_intrin"](name, *texts)


def primitives() -> str:
    """Returns a table of the primitives: parameters, those that may be left out in brackets, and effects.

    >>> "split(loop, factors" in reflex.schedule.primitives()
    True
    """
    return str(_reflex["schedule_primitives"]())


def _variable(name: str) -> Variable:
    kinds: dict[str, type[Variable]] = {"b": Block, "l": Loop}
    return kinds.get(name[0], Variable)(name)


def _text(value: Any) -> str:
    """An argument as a trace writes it."""
    if isinstance(value, Variable):
        return str.__str__(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    if callable(value):
        params = list(inspect.signature(value).parameters)
        images = value(*(_Index(name) for name in params))
        images = images if isinstance(images, (list, tuple)) else (images,)
        return f"lambda {', '.join(params)}: [{', '.join(str(image) for image in images)}]"
    raise TypeError(f"{value!r} is no argument of a primitive")
