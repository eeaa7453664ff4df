"""The builder of executables of the virtual machine: bytecode by hand, as TVM's `relax.ExecBuilder`."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tvm_ffi

from ._library import LIBRARY as _reflex


class ExecBuilder:
    """Builds an executable from functions of four instructions. Callees are builtins, registered packed
    functions, and functions of the executable.

    >>> reflex.register_global_func("docs.builder.add", lambda x, y: x + y)
    >>> ib = reflex.ExecBuilder()
    >>> with ib.function("main", num_inputs=2):
    ...     ib.emit_call("docs.builder.add", args=[ib.r(0), ib.r(1)], dst=ib.r(2))
    ...     ib.emit_call("docs.builder.add", args=[ib.r(2), ib.imm(10)], dst=ib.r(3))
    ...     ib.emit_ret(ib.r(3))
    >>> ib.get().session()["main"](1, 2)
    13
    """

    def __init__(self) -> None:
        self._handle = _reflex["exec_builder"]()

    def r(self, index: int) -> int:
        """Register `index`, as an argument or a destination.

        >>> reflex.ExecBuilder().r(3)
        3
        """
        return int(self._handle("r", index))

    def imm(self, value: int) -> int:
        """An integer of at most 56 bits.

        >>> reflex.ExecBuilder().imm(1) == 1 | 1 << 56
        True
        """
        return int(self._handle("imm", value))

    def c(self, value: Any) -> int:
        """A constant: an array, a shape (a tuple), a string, a number, or a NumPy or tvm-ffi dtype.

        >>> ib = reflex.ExecBuilder()
        >>> ib.c((2, 3)) == ib.c((2, 3)) != ib.c(np.float32)
        True
        """
        return int(self._handle("constant", _constant(value)))

    def f(self, name: str) -> int:
        """A function as a value.

        >>> word = reflex.ExecBuilder().f("vm.builtin.copy")
        """
        return int(self._handle("f", name))

    def void_arg(self) -> int:
        """The argument that reads as None.

        >>> reflex.ExecBuilder().void_arg() == 1 << 54
        True
        """
        return int(self._handle("void_arg"))

    def vm_state(self) -> int:
        """The virtual machine itself, which some builtins take.

        >>> reflex.ExecBuilder().vm_state() == (1 << 54) + 1
        True
        """
        return int(self._handle("vm_state"))

    @contextmanager
    def function(
        self, name: str, num_inputs: int = 0, param_names: Sequence[str] | None = None
    ) -> Iterator[None]:
        """The function that a `with` emits; its parameters are the first registers.

        >>> ib = reflex.ExecBuilder()
        >>> with ib.function("main", param_names=["x"]):
        ...     ib.emit_call("vm.builtin.copy", [ib.r(0)], ib.r(1))
        ...     ib.emit_ret(ib.r(1))
        >>> ib.get().session().param_names("main")
        ['x']
        """
        self._handle("function", name, num_inputs if param_names is None else list(param_names))
        yield
        self._handle("end_function")

    def emit_call(self, name: str, args: Sequence[Any] = (), dst: int | None = None) -> None:
        """Emits a call. Arguments are what `r`, `imm`, `c`, `f` and the like give; arrays, tuples and strings
        among them become constants.

        >>> ib = reflex.ExecBuilder()
        >>> with ib.function("main"):
        ...     ib.emit_call("vm.builtin.copy", [np.ones(2, "float32")], ib.r(0))
        ...     ib.emit_ret(ib.r(0))
        >>> ib.get().session()["main"]().numpy()
        array([1., 1.], dtype=float32)
        """
        words = [word if isinstance(word, int) else self.c(word) for word in args]
        self._handle("emit_call", name, words, dst)

    def emit_ret(self, result: int) -> None:
        """Emits a return of a register.

        >>> ib = reflex.ExecBuilder()
        >>> with ib.function("main", param_names=["x"]):
        ...     ib.emit_call("vm.builtin.copy", [ib.r(0)], ib.r(1))
        ...     ib.emit_ret(ib.r(1))
        >>> ib.get().session()["main"](7)
        7
        """
        self._handle("emit_ret", result)

    def emit_goto(self, pc_offset: int) -> None:
        """Emits a jump by so many instructions, which may be negative.

        >>> ib = reflex.ExecBuilder()
        >>> with ib.function("main", 1):
        ...     ib.emit_if(ib.r(0), 3)
        ...     ib.emit_call("vm.builtin.copy", [ib.imm(1)], ib.r(1))
        ...     ib.emit_goto(2)
        ...     ib.emit_call("vm.builtin.copy", [ib.imm(2)], ib.r(1))
        ...     ib.emit_ret(ib.r(1))
        >>> main = ib.get().session()["main"]
        >>> main(True), main(False)
        (1, 2)
        """
        self._handle("emit_goto", pc_offset)

    def emit_if(self, cond: int, false_offset: int) -> None:
        """Emits a branch: on where the register is not zero, else by so many instructions.

        >>> ib = reflex.ExecBuilder()
        >>> with ib.function("main", 1):
        ...     ib.emit_if(ib.r(0), 2)
        ...     ib.emit_ret(ib.r(0))
        ...     ib.emit_call("vm.builtin.copy", [ib.imm(2)], ib.r(1))
        ...     ib.emit_ret(ib.r(1))
        >>> main = ib.get().session()["main"]
        >>> main(5), main(0)
        (5, 2)
        """
        self._handle("emit_if", cond, false_offset)

    def warnings(self) -> list[str]:
        """What is odd about the functions so far: inputs that nothing reads.

        >>> ib = reflex.ExecBuilder()
        >>> with ib.function("main", 2):
        ...     ib.emit_ret(ib.r(0))
        >>> len(ib.warnings())
        1
        """
        return [str(each) for each in self._handle("warnings")]

    def as_text(self) -> str:
        """Returns the instructions, as TVM prints them. The executable is finished.

        >>> ib = reflex.ExecBuilder()
        >>> with ib.function("main", param_names=["x"]):
        ...     ib.emit_call("vm.builtin.copy", [ib.r(0)], ib.r(1))
        ...     ib.emit_ret(ib.r(1))
        >>> "vm.builtin.copy" in ib.as_text()
        True
        """
        return str(self._handle("as_text"))

    def get(self) -> Any:
        """Returns the `Program`. The executable is finished.

        >>> ib = reflex.ExecBuilder()
        >>> with ib.function("main", param_names=["x"]):
        ...     ib.emit_call("vm.builtin.copy", [ib.r(0)], ib.r(1))
        ...     ib.emit_ret(ib.r(1))
        >>> ib.get().functions
        ['main']
        """
        from . import Program

        return Program(self._handle("get"), (b"", "an ExecBuilder"))


def _constant(value: Any) -> Any:
    """A value as the library takes it for a constant."""
    if isinstance(value, tuple):
        return tvm_ffi.Shape(value)
    if isinstance(value, (np.dtype, tvm_ffi.dtype)) or (isinstance(value, type) and issubclass(value, np.generic)):
        return _reflex["dtype"](str(np.dtype(value) if not isinstance(value, tvm_ffi.dtype) else value))
    if isinstance(value, (str, bool, int, float, tvm_ffi.Shape, tvm_ffi.Tensor)):
        return value
    return tvm_ffi.from_dlpack(np.array(value, order="C"))
