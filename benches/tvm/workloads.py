"""The programs that dispatch is measured with, built by TVM, for vs_tvm.py.

Kernels do next to nothing (one addition), so that what is left is the virtual machine. All are
exported as shared libraries, which TVM and Reflex then open.
"""
import os

os.environ.setdefault("TVM_NUM_THREADS", "1")
import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

ONE = relax.TensorType((1,), "float32")


@I.ir_module
class Recursion:
    @T.prim_func(s_tir=True)
    def add1(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32")):
        with T.sblock("add1"):
            B[0] = A[0] + T.float32(1)

    @T.prim_func(s_tir=True)
    def dec(N: T.Buffer((1,), "int64"), C: T.Buffer((), "bool")):
        with T.sblock("dec"):
            N[0] = N[0] - T.int64(1)
            C[()] = N[0] > T.int64(0)

    @T.prim_func(s_tir=True)
    def set_n(N: T.Buffer((1,), "int64"), M: T.Buffer((1,), "int64")):
        with T.sblock("set_n"):
            M[0] = N[0]

    @R.function(pure=False)
    def turn(
        i: R.Tensor((1,), "int64"),
        c: R.Tensor((), "bool"),
        x: R.Tensor((1,), "float32"),
        y: R.Tensor((1,), "float32"),
    ) -> R.Tensor((1,), "float32"):
        cls = Recursion
        _ = cls.dec(i, c)
        _1 = cls.add1(x, y)
        if c:
            r = cls.turn(i, c, x, y)
        else:
            r = y
        return r

    @R.function(pure=False)
    def main(
        n: R.Tensor((1,), "int64"),
        i: R.Tensor((1,), "int64"),
        c: R.Tensor((), "bool"),
        x: R.Tensor((1,), "float32"),
        y: R.Tensor((1,), "float32"),
    ) -> R.Tensor((1,), "float32"):
        cls = Recursion
        _ = cls.set_n(n, i)
        r = cls.turn(i, c, x, y)
        return r


KERNELS = [(v, f) for v, f in Recursion.functions_items() if not isinstance(f, relax.Function)]


def _builder():
    builder = relax.BlockBuilder()
    for var, func in KERNELS:
        builder.add_func(func.with_attr("global_symbol", var.name_hint), var.name_hint)
    return builder, builder.get().get_global_var("add1")


def chain(n):
    """n calls of a kernel on the same two tensors."""
    builder, add1 = _builder()
    x, y = relax.Var("x", ONE), relax.Var("y", ONE)
    with builder.function("main", [x, y], pure=False):
        for at in range(n):
            builder.emit(relax.Call(add1, [x, y] if at % 2 == 0 else [y, x]))
        builder.emit_func_output(x)
    return builder.get()


def operators(n):
    """n operators with a fresh output each; TVM plans the memory."""
    builder, add1 = _builder()
    x = relax.Var("x", ONE)
    with builder.function("main", [x]):
        with builder.dataflow():
            last = x
            for _ in range(n):
                last = builder.emit(relax.call_tir(add1, [last], ONE))
            out = builder.emit_output(last)
        builder.emit_func_output(out)
    return builder.get()


def packed(name, arity):
    """n calls of a builtin."""

    def build(n):
        builder, _ = _builder()
        x = relax.Var("x", ONE)
        with builder.function("main", [x], pure=False):
            for _ in range(n):
                builder.emit(relax.Call(relax.ExternFunc(name), [x] * arity, ty_args=[ONE]))
            builder.emit_func_output(x)
        return builder.get()

    return build


def functions(n):
    """n calls of a function of one parameter, which it checks and returns."""
    builder, _ = _builder()
    p = relax.Var("p", ONE)
    with builder.function("ident", [p]):
        builder.emit_func_output(p)
    ident = builder.get().get_global_var("ident")
    x = relax.Var("x", ONE)
    with builder.function("main", [x]):
        last = x
        for _ in range(n):
            last = builder.emit(relax.Call(ident, [last]))
        builder.emit_func_output(last)
    return builder.get()


def identity(n):
    """A function that checks and returns its argument."""
    builder, _ = _builder()
    x = relax.Var("x", ONE)
    with builder.function("main", [x]):
        builder.emit_func_output(x)
    return builder.get()


def large(n):
    """Adds a constant of 64 MiB to a vector of one extent."""
    builder = relax.BlockBuilder()
    count = 16 << 20
    x = relax.Var("x", ONE)
    with builder.function("main", [x]):
        with builder.dataflow():
            constant = relax.const(np.zeros(count, "float32"))
            first = builder.emit(relax.op.take(constant, relax.const(np.zeros(1, "int64")), axis=0))
            out = builder.emit_output(relax.op.add(x, first))
        builder.emit_func_output(out)
    return builder.get()


def jump():
    """A loop with a backward jump, which Relax cannot write."""
    from tvm.relax.vm_build import _vmlink

    b = relax.ExecBuilder()
    with b.function("main", num_inputs=5):
        b.emit_call("set_n", args=[b.r(0), b.r(1)])
        b.emit_call("dec", args=[b.r(1), b.r(2)])
        b.emit_call("add1", args=[b.r(3), b.r(4)])
        b.emit_call("vm.builtin.read_if_cond", args=[b.r(2)], dst=b.r(5))
        b.emit_if(b.r(5), 2)
        b.emit_goto(-4)
        b.emit_ret(b.r(4))
    kernels = {v: f.with_attr("global_symbol", v.name_hint) for v, f in KERNELS}
    return _vmlink(b, "llvm", tvm.IRModule(kernels))


def tensor(value, dtype="float32"):
    return tvm.runtime.tensor(np.array(value, dtype), device=tvm.cpu())


def pair(n):
    return tensor([0]), tensor([0])


def single(n):
    return (tensor([0]),)


def state(n):
    return tensor([n], "int64"), tensor([0], "int64"), tensor(False, "bool"), tensor([0]), tensor([0])


# name: (module of n steps or for any n, whether steps are in the program, arguments)
WORKLOADS = {
    "kernel call": (chain, True, pair),
    "operator, three calls": (operators, True, single),
    "null_value": (packed("vm.builtin.null_value", 0), True, single),
    "copy": (packed("vm.builtin.copy", 1), True, single),
    "function, two checks": (functions, True, single),
    "recursion with If": (lambda n: Recursion, False, state),
    "backward Goto": (None, False, state),
}


def exported(folder, name, n, mode):
    """The path of a workload's library, built if it is not there."""
    build, in_program, _ = WORKLOADS.get(name) or EXTRA[name]
    if build is None and mode == "compiled":
        return None
    stem = name.replace(" ", "_").replace(",", "")
    path = os.path.join(folder, f"{stem}.{n if in_program else 0}.{mode}.so")
    if not os.path.exists(path):
        executable = jump() if build is None else relax.build(build(n), "llvm", exec_mode=mode)
        executable.export_library(path + ".new.so")
        os.rename(path + ".new.so", path)
    return path


EXTRA = {"identity": (identity, False, single), "large": (large, False, single)}
