"""Exports programs for the interop tests: NAME.so, and NAME.txt with what TVM prints.

usage: export_programs.py DIR
"""
import os
import sys

os.environ.setdefault("TVM_NUM_THREADS", "1")
import tvm
from tvm import relax
from tvm.relax.vm_build import _vmlink
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T


@I.ir_module
class Kernels:
    @T.prim_func(s_tir=True)
    def add1(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32")):
        for i in range(1):
            with T.sblock("b"):
                v = T.axis.spatial(1, i)
                B[v] = A[v] + T.float32(1)

    @T.prim_func(s_tir=True)
    def dec(N: T.Buffer((1,), "int64"), C: T.Buffer((), "bool")):
        with T.sblock("b"):
            N[0] = N[0] - T.int64(1)
            C[()] = N[0] > T.int64(0)


@I.ir_module
class Chain:
    @T.prim_func(s_tir=True)
    def add1(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32")):
        for i in range(1):
            with T.sblock("b"):
                v = T.axis.spatial(1, i)
                B[v] = A[v] + T.float32(1)

    @R.function
    def main(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        cls = Chain
        with R.dataflow():
            a = R.call_tir(cls.add1, (x,), out_ty=R.Tensor((1,), "float32"))
            b = R.call_tir(cls.add1, (a,), out_ty=R.Tensor((1,), "float32"))
            R.output(b)
        return b


@I.ir_module
class Recursion:
    @T.prim_func(s_tir=True)
    def add1(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32")):
        for i in range(1):
            with T.sblock("b"):
                v = T.axis.spatial(1, i)
                B[v] = A[v] + T.float32(1)

    @T.prim_func(s_tir=True)
    def dec(N: T.Buffer((1,), "int64"), C: T.Buffer((), "bool")):
        with T.sblock("b"):
            N[0] = N[0] - T.int64(1)
            C[()] = N[0] > T.int64(0)

    @R.function(pure=False)
    def main(
        n: R.Tensor((1,), "int64"), c: R.Tensor((), "bool"), x: R.Tensor((1,), "float32")
    ) -> R.Tensor((1,), "float32"):
        cls = Recursion
        _ = cls.dec(n, c)
        _1 = cls.add1(x, x)
        if c:
            r = cls.main(n, c, x)
        else:
            r = x
        return r


@I.ir_module
class Branches:
    """TVM's interpreter crashes on the false branch (issue 20191)."""

    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32")):
        if c:
            a = R.reshape(x, R.shape([3, 2]))
            r = R.reshape(a, R.shape([6]))
        else:
            b = R.reshape(x, R.shape([6, 1]))
            r = R.reshape(b, R.shape([6]))
        return r


@I.ir_module
class Symbolic:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("m", "n"), "float32"):
        n, m = T.int64(), T.int64()
        y = R.reshape(x, R.shape([m, n]))
        return y

    @R.function(pure=False)
    def empty(x: R.Tensor((1,), "float32")) -> R.Tuple([]):
        return R.tuple()

    @R.function(pure=False)
    def calls_empty(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        cls = Symbolic
        _ = cls.empty(x)
        return x

    @R.function
    def closure(x: R.Tensor((1,), "float32"), y: R.Tensor((1,), "float32")):
        @R.function
        def pair(a: R.Tensor((1,), "float32")):
            return (a, x)

        r = pair(y)
        return r


def goto_loop():
    b = relax.ExecBuilder()
    with b.function("main", num_inputs=3):
        b.emit_call("dec", args=[b.r(0), b.r(1)])
        b.emit_call("add1", args=[b.r(2), b.r(2)])
        b.emit_call("vm.builtin.read_if_cond", args=[b.r(1)], dst=b.r(3))
        b.emit_if(b.r(3), 2)
        b.emit_goto(-4)
        b.emit_ret(b.r(2))
    functions = Kernels.functions_items()
    mod = {gv: f.with_attr("global_symbol", gv.name_hint) for gv, f in functions}
    return _vmlink(b, "llvm", tvm.IRModule(mod))


def main(out):
    built = {
        "chain": relax.build(Chain, target="llvm"),
        "recursion": relax.build(Recursion, target="llvm"),
        "branches": relax.build(Branches, target="llvm"),
        "symbolic": relax.build(relax.transform.LambdaLift()(Symbolic), target="llvm"),
        "goto": goto_loop(),
        "chain_native": relax.build(Chain, target="llvm", exec_mode="compiled"),
        "recursion_native": relax.build(Recursion, target="llvm", exec_mode="compiled"),
        "symbolic_native": relax.build(
            relax.transform.LambdaLift()(Symbolic), target="llvm", exec_mode="compiled"
        ),
    }
    for name, executable in built.items():
        executable.export_library(os.path.join(out, name + ".so"))
        with open(os.path.join(out, name + ".txt"), "w", encoding="utf-8") as text:
            text.write(executable.as_text())
        with open(os.path.join(out, name + ".stats"), "w", encoding="utf-8") as text:
            text.write(executable.stats())


main(sys.argv[1])
