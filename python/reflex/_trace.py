"""Functions written down as TVMScript while Python runs them; the ground of `reflex.nn`."""
from __future__ import annotations

import ast
import json
import keyword
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from ._constants import Table

#: A dimension: a number, the name of a symbolic one, or an expression over names such as "n * 4".
Dim = int | str

#: Operators whose results have the element type of their first operand.
_KEEPS_DTYPE = frozenset(
    "add subtract multiply divide power maximum minimum matmul negative exp log sqrt rsqrt square tanh"
    " sigmoid erf abs mean sum max min prod variance std cumsum reshape permute_dims expand_dims squeeze"
    " flatten broadcast_to concat stack strided_slice flip repeat tile clip take nn.relu nn.relu6 nn.silu"
    " nn.gelu nn.gelu_tanh nn.selu nn.leakyrelu nn.softplus nn.softmax nn.log_softmax nn.layer_norm"
    " nn.group_norm nn.instance_norm nn.rms_norm nn.conv1d nn.conv2d nn.conv3d nn.max_pool2d"
    " nn.avg_pool2d nn.adaptive_avg_pool2d nn.pad nn.attention nn.batch_norm split".split()
)
_RESERVED = frozenset(("I", "R", "T", "TypeVar", "Module", "metadata", "tvm", "cls"))


def _dims(shape: Iterable[Dim]) -> tuple[Dim, ...]:
    """Checks dimensions: numbers from 0, or integer arithmetic over names."""
    return tuple(_dim(dim) for dim in shape)


def _dim(dim: Dim) -> Dim:
    if isinstance(dim, str):
        names_of(dim)
        return dim
    if isinstance(dim, bool) or not isinstance(dim, (int, np.integer)):
        raise TypeError(f"a dimension is a number or a text, not {dim!r}")
    return int(dim)


def names_of(dim: str) -> set[str]:
    """The names in an expression of integers."""
    allowed = (ast.Expression, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Load)
    try:
        nodes = list(ast.walk(ast.parse(dim, mode="eval")))
    except SyntaxError:
        raise ValueError(f"{dim!r} is no dimension") from None
    names = set()
    for node in nodes:
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Constant):
            if type(node.value) is not int:
                raise ValueError(f"{dim!r} is no dimension: {node.value!r} is no integer")
        elif not isinstance(node, allowed):
            raise ValueError(f"{dim!r} is no dimension: it may have names, integers, +, -, * and //")
    return names


class Tensor:
    """A value of a function that is being written: the result of an operator, an input, a parameter.

    It has no numbers. `+`, `-`, `*`, `/`, `**`, `@` and the methods write operators; numbers beside it get
    its element type. `dtype` is None where only the compiler knows it.
    """

    def __init__(self, name: str, dtype: str | None, trace: Trace | None) -> None:
        self._name = name
        self._trace = trace
        self.dtype = dtype

    def _text(self, trace: Trace) -> str:
        if self._trace is not trace:
            raise ValueError(f"the tensor {self._name!r} belongs to another function")
        return self._name

    def _binary(self, name: str, other: Tensor | float, swapped: bool = False) -> Tensor:
        if not isinstance(other, Tensor):
            if self.dtype is None:
                raise TypeError(f"{other!r} beside a tensor whose element type is unknown: use nn.const")
            other = const(other, self.dtype)
        return write(name, (other, self) if swapped else (self, other))

    def __add__(self, other: Tensor | float) -> Tensor:
        return self._binary("add", other)

    def __radd__(self, other: float) -> Tensor:
        return self._binary("add", other, swapped=True)

    def __sub__(self, other: Tensor | float) -> Tensor:
        return self._binary("subtract", other)

    def __rsub__(self, other: float) -> Tensor:
        return self._binary("subtract", other, swapped=True)

    def __mul__(self, other: Tensor | float) -> Tensor:
        return self._binary("multiply", other)

    def __rmul__(self, other: float) -> Tensor:
        return self._binary("multiply", other, swapped=True)

    def __truediv__(self, other: Tensor | float) -> Tensor:
        return self._binary("divide", other)

    def __rtruediv__(self, other: float) -> Tensor:
        return self._binary("divide", other, swapped=True)

    def __pow__(self, other: Tensor | float) -> Tensor:
        return self._binary("power", other)

    def __matmul__(self, other: Tensor) -> Tensor:
        return write("matmul", (self, other))

    def __neg__(self) -> Tensor:
        return write("negative", (self,))

    def __bool__(self) -> bool:
        raise TypeError("a tensor of a function that is being written has no numbers to branch on")

    def reshape(self, *shape: Dim) -> Tensor:
        """The same elements in another shape; one dimension may be -1.

        >>> from reflex import nn
        >>> class Net(nn.Module):
        ...     def forward(self, x):
        ...         return x.reshape(-1, 4)
        >>> session = Net().export(x=nn.Input((2, 8))).compile().session()
        >>> session["main"](np.ones((2, 8), "float32")).shape
        (4, 4)
        """
        return write("reshape", (self, tuple(shape)))

    def permute(self, *axes: int) -> Tensor:
        """Other order of the axes.

        >>> from reflex import nn
        >>> class Net(nn.Module):
        ...     def forward(self, x):
        ...         return x.permute(1, 0)
        >>> session = Net().export(x=nn.Input((2, 8))).compile().session()
        >>> session["main"](np.ones((2, 8), "float32")).shape
        (8, 2)
        """
        return write("permute_dims", (self,), {"axes": list(axes)})

    def astype(self, dtype: str) -> Tensor:
        """Elements of another type.

        >>> from reflex import nn
        >>> class Net(nn.Module):
        ...     def forward(self, x):
        ...         return x.astype("float16")
        >>> session = Net().export(x=nn.Input((2, 8))).compile().session()
        >>> session["main"](np.ones((2, 8), "float32")).shape
        (2, 8)
        """
        return write("astype", (self,), {"dtype": dtype}, dtype)

    def field(self, index: int) -> Tensor:
        """An element of a tuple, such as the result of `nn.op.split`.

        >>> from reflex import nn
        >>> class Net(nn.Module):
        ...     def forward(self, x):
        ...         return nn.op.split(x, 2, axis=1).field(0)
        >>> session = Net().export(x=nn.Input((2, 8))).compile().session()
        >>> session["main"](np.ones((2, 8), "float32")).shape
        (2, 4)
        """
        trace = Trace.current()
        return trace.bind(f"{self._text(trace)}[{int(index)}]", self.dtype)


class Parameter(Tensor):
    """A tensor of a module that calls do not pass: a constant of the program, or an input after the
    others. `data` is None, or a NumPy array of its shape and type.

    >>> reflex.nn.Parameter((2, 3)).data is None
    True
    """

    def __init__(
        self, shape: Sequence[int], dtype: str = "float32", data: Any | None = None
    ) -> None:
        super().__init__("parameter", dtype, None)
        self.shape = tuple(int(dim) for dim in shape)
        self._data: np.ndarray[Any, Any] | None = None
        if data is not None:
            self.data = data

    @property
    def data(self) -> np.ndarray[Any, Any] | None:
        """The values, if there are any.

        >>> reflex.nn.Parameter((2,), data=[1, 2]).data
        array([1., 2.], dtype=float32)
        """
        return self._data

    @data.setter
    def data(self, value: Any) -> None:
        if self.dtype == "bfloat16":
            import ml_dtypes  # noqa: F401  NumPy knows the type by it

        array = np.ascontiguousarray(np.asarray(value).astype(self.dtype, copy=False))
        if np.shape(value) != self.shape:
            raise ValueError(f"data of shape {np.shape(value)} for a parameter of shape {self.shape}")
        self._data = array.reshape(self.shape)

    def _text(self, trace: Trace) -> str:
        return trace.parameter(self)


class Input:
    """The shape and the element type of an input. Dimensions are numbers, or names of symbolic ones.

    >>> reflex.nn.Input(("n", 8))
    Input(('n', 8), 'float32')
    """

    def __init__(self, shape: Sequence[Dim], dtype: str = "float32") -> None:
        self.shape = _dims(shape)
        self.dtype = dtype
        for dim in self.shape:
            if isinstance(dim, str) and not _is_name(dim):
                raise ValueError(f"the dimension {dim!r} of an input is no name")

    def __repr__(self) -> str:
        return f"Input({self.shape}, {self.dtype!r})"


def tensor_type(shape: Sequence[Dim], dtype: str) -> str:
    """`R.Tensor((n, 4), dtype="float32")`"""
    dims = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    return f"R.Tensor(({dims}), dtype={json.dumps(dtype)})"


def _is_name(text: str) -> bool:
    taken = keyword.iskeyword(text) or text in _RESERVED
    return text.isascii() and text.isidentifier() and not taken


_CURRENT: ContextVar[Trace | None] = ContextVar("reflex.nn", default=None)


class Trace:
    """A function that is being written."""

    def __init__(self, inputs: Mapping[str, Input], table: Table, kernels: dict[str, str]) -> None:
        self._table = table
        self._dims = {d for i in inputs.values() for d in i.shape if isinstance(d, str)}
        self._used = set(inputs) | self._dims
        self._lines: list[str] = []
        self._bound = 0
        self._branches = False
        self._parameters: dict[int, str] = {}
        #: Kernels of the module, by name.
        self._kernels = kernels
        self._calls_kernels = False
        for name in inputs:
            if not _is_name(name) or name in self._dims:
                raise ValueError(f"an input cannot be called {name!r}")
        self._annotated = {
            name: tensor_type(spec.shape, spec.dtype) for name, spec in inputs.items()
        }
        self.inputs = [Tensor(name, spec.dtype, self) for name, spec in inputs.items()]
        self.added: dict[str, str] = {}

    @staticmethod
    def current() -> Trace:
        """The function that is being written."""
        trace = _CURRENT.get()
        if trace is None:
            raise RuntimeError("operators are written while a module is exported, not outside of it")
        return trace

    @contextmanager
    def active(self) -> Iterator[None]:
        """Operators are written into this function."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    @property
    def dims(self) -> set[str]:
        """The symbolic dimensions of the inputs."""
        return self._dims

    def _fresh(self, stem: str) -> str:
        name, count = stem, 0
        while name in self._used or not _is_name(name):
            name, count = f"{stem}_{count}", count + 1
        self._used.add(name)
        return name

    def bind(self, expression: str, dtype: str | None) -> Tensor:
        """Binds a value to a new name."""
        name = self._fresh(f"lv{self._bound}")
        self._bound += 1
        self._lines.append(f"{name} = {expression}")
        return Tensor(name, dtype, self)

    def branch(self, condition: Tensor, sides: Sequence[Callable[[], Any]]) -> Any:
        """Binds what one of two sides gives."""
        chosen, written = self.value(condition), []
        for side in sides:
            outside, self._lines = self._lines, []
            try:
                result = side()
                results = result if isinstance(result, tuple) else (result,)
                if not results or not all(isinstance(value, Tensor) for value in results):
                    raise TypeError(f"a side gives {result!r}; it gives a tensor or a tuple of tensors")
                written.append((self._lines, results, self.value(result)))
            finally:
                self._lines = outside
        dtypes = [
            first.dtype if first.dtype == second.dtype else None
            for first, second in zip(written[0][1], written[1][1])
        ]
        if any(len(results) != len(dtypes) for _, results, _ in written):
            raise TypeError("one side gives more tensors than the other")
        name = self._fresh(f"lv{self._bound}")
        self._bound += 1
        self._branches = True
        for head, (lines, _, given) in zip((f"if {chosen}:", "else:"), written):
            self._lines += [head, *(f"    {line}" for line in lines), f"    {name} = {given}"]
        if not written[0][2].startswith("("):
            return Tensor(name, dtypes[0], self)
        return tuple(self.bind(f"{name}[{at}]", dtype) for at, dtype in enumerate(dtypes))

    def kernel(self, text: str) -> str:
        """The name of a kernel that the module has from then on."""
        names = re.findall(r"^def (\w+)\(", text, re.MULTILINE)
        if len(names) != 1 or "@T.prim_func" not in text:
            raise ValueError("a kernel is the text of one function under @T.prim_func")
        if self._kernels.setdefault(names[0], text) != text:
            raise ValueError(f"there are two kernels `{names[0]}`")
        self._calls_kernels = True
        return str(names[0])

    def parameter(self, parameter: Parameter) -> str:
        """The name of a parameter: an input of its own, or an entry of the table of constants."""
        known = self._parameters.get(id(parameter))
        if known is None:
            path = self._table.path(parameter)
            if self._table.as_inputs:
                known = self._fresh(path.replace(".", "_"))
                self.added[known] = path
                shape, dtype = parameter.shape, cast(str, parameter.dtype)
                self._annotated[known] = tensor_type(shape, dtype)
            else:
                known = self._table.constant(parameter, path)
            self._parameters[id(parameter)] = known
        return known

    def value(self, value: Any) -> str:
        """An argument as text."""
        if isinstance(value, Tensor):
            return value._text(self)
        if isinstance(value, tuple) and value and all(isinstance(v, Tensor) for v in value):
            return "(" + "".join(f"{self.value(v)}, " for v in value) + ")"
        if isinstance(value, tuple):
            return f"R.shape([{', '.join(map(self._dim_text, _dims(value)))}])"
        if isinstance(value, list):
            return f"[{', '.join(map(self.value, value))}]"
        if value is None or isinstance(value, (bool, np.bool_)):
            return str(value)
        if isinstance(value, (int, np.integer)):
            return str(int(value))
        if isinstance(value, (float, np.floating)) and math.isfinite(value):
            return repr(float(value))
        if isinstance(value, str):
            return json.dumps(value)
        raise TypeError(f"{value!r} cannot be an argument of an operator")

    def _dim_text(self, dim: Dim) -> str:
        if isinstance(dim, str):
            unknown = names_of(dim) - self._dims
            if unknown:
                raise ValueError(f"no input has the dimension {sorted(unknown)[0]!r}")
        return str(dim)

    def text(self, name: str, result: Tensor | tuple[Tensor, ...]) -> str:
        """The function."""
        results = result if isinstance(result, tuple) else (result,)
        if not results or not all(isinstance(value, Tensor) for value in results):
            raise TypeError(f"{name} gives {result!r}; it gives a tensor or a tuple of tensors")
        # A result is a value of the function's own: no input, no constant, and none twice.
        bound = [self.bind(self.value(value), None)._name for value in results]
        body = [*self._lines, f"R.output({', '.join(bound)})"]
        given = f"({', '.join(bound)})" if isinstance(result, tuple) and len(bound) > 1 else bound[0]
        if isinstance(result, tuple) and len(bound) == 1:
            given = f"({bound[0]},)"
        head = ", ".join(f"{name}: {annotation}" for name, annotation in self._annotated.items())
        lines = ["    @R.function", f"    def {name}({head}):"]
        if self._calls_kernels:
            lines.append("        cls = Module")
        if self._branches:
            # A block of dataflow has no branches.
            lines += [f"        {line}" for line in body[:-1]]
        else:
            lines += ["        with R.dataflow():", *(f"            {line}" for line in body)]
        return "\n".join([*lines, f"        return {given}"])


def write(
    name: str,
    args: Sequence[Any],
    named: Mapping[str, Any] | None = None,
    dtype: str | None = None,
) -> Tensor:
    """Writes the call of an operator, `R.<name>`."""
    trace = Trace.current()
    if dtype is None and name in _KEEPS_DTYPE:
        tensors = [v for arg in args for v in (arg if isinstance(arg, tuple) else (arg,))]
        dtype = next((v.dtype for v in tensors if isinstance(v, Tensor)), None)
    texts = [trace.value(arg) for arg in args]
    texts += [f"{key}={trace.value(value)}" for key, value in (named or {}).items()]
    return trace.bind(f"R.{name}({', '.join(texts)})", dtype)


def const(value: Any, dtype: str = "float32") -> Tensor:
    """A constant in the text: a number, or (nested) lists of them. Larger ones are parameters.

    >>> class Twice(reflex.nn.Module):
    ...     def forward(self, x):
    ...         return x * reflex.nn.const([[2.0]])
    >>> "R.const([[2.0]]" in Twice().export(x=reflex.nn.Input(("n", 8))).text
    True
    """
    trace = Trace.current()
    if not isinstance(value, (list, bool, int)):
        value = float(value)
    return trace.bind(f"R.const({trace.value(value)}, {json.dumps(dtype)})", dtype)


def cond(condition: Tensor, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """Takes what one of two functions writes: the first one where the condition, a tensor of one `bool`, holds in a call. Both
    give a tensor, or as many tensors in a tuple, of the same types.

    >>> class Clipped(reflex.nn.Module):
    ...     def forward(self, on, x):
    ...         return reflex.nn.cond(on, lambda: reflex.nn.op.clip(x, 0, 1), lambda: x * 2.0)
    >>> net = Clipped().export(on=reflex.nn.Input((), "bool"), x=reflex.nn.Input(("n",)))
    >>> main = net.compile().session()["main"]
    >>> [main(np.array(on), np.array([-1, 3], "float32")).numpy().tolist() for on in (True, False)]
    [[0.0, 1.0], [-2.0, 6.0]]
    """
    return Trace.current().branch(condition, (then, otherwise))


def call_tir(kernel: str, *args: Tensor, shape: Sequence[Dim], dtype: str = "float32") -> Tensor:
    """Calls a kernel, the text of which `reflex.te.create_prim_func` or a person wrote, on tensors. It gives a tensor of this
    shape and type.

    >>> from reflex import te
    >>> a = te.placeholder((4,), name="A")
    >>> b = te.compute((4,), lambda i: a[i] * a[i] + 1.0, name="B")
    >>> class Squared(reflex.nn.Module):
    ...     def forward(self, x):
    ...         return reflex.nn.call_tir(te.create_prim_func([a, b], "squared"), -x, shape=(4,))
    >>> program = Squared().export(x=reflex.nn.Input((4,))).compile()
    >>> program.session()["main"](np.arange(4, dtype="float32")).numpy().tolist()
    [1.0, 2.0, 5.0, 10.0]
    """
    trace = Trace.current()
    name, result = trace.kernel(kernel), _result(trace, shape, dtype)
    texts = "".join(f"{trace.value(arg)}, " for arg in args)
    return trace.bind(f"R.call_tir(cls.{name}, ({texts}), out_ty={result})", dtype)


def _result(trace: Trace, shape: Sequence[Dim], dtype: str) -> str:
    """The type of a result, over dimensions of the inputs."""
    names = {n for dim in shape if isinstance(dim, str) for n in names_of(dim)}
    if names - trace.dims:
        raise ValueError(f"no input has the dimension {sorted(names - trace.dims)[0]!r}")
    return tensor_type(_dims(shape), dtype)


def call_packed(name: str, *args: Any, shape: Sequence[Dim], dtype: str = "float32") -> Tensor:
    """Calls a packed function that is registered where the program runs, without side effects. It gives
    a tensor of this shape and type.

    >>> reflex.register_global_func("docs.same", lambda x: x, override=True)
    >>> class Packed(reflex.nn.Module):
    ...     def forward(self, x):
    ...         return reflex.nn.call_packed("docs.same", x, shape=("n", 8))
    >>> program = Packed().export(x=reflex.nn.Input(("n", 8))).compile()
    """
    trace = Trace.current()
    result = _result(trace, shape, dtype)
    texts = [json.dumps(name), *(trace.value(arg) for arg in args)]
    return trace.bind(f"R.call_pure_packed({', '.join(texts)}, ty_args=({result},))", dtype)
