"""The modules that modules.py builds, and the calls it makes."""
import os
import sys
from dataclasses import dataclass, field

import numpy as np
import tvm
from tvm import relax
from tvm.relax.vm_build import _vmlink
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from __main__ import Shape

rng = np.random.default_rng(7)
BOTH = ("bytecode", "compiled")


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def i64(*values):
    return np.array(values, "int64")


@dataclass
class Subject:
    name: str
    module: object
    cases: list
    modes: tuple = BOTH
    builder: object = None
    passes: list = field(default_factory=list)
    # Modes whose answers are right.
    trusted: tuple = BOTH
    # A real model.
    large: bool = False
    # CPUs that the module is for.
    cpus: int = 1

    def build(self, mode):
        if self.builder is not None:
            return self.builder(mode)
        return relax.build(self.passed(), target="llvm", exec_mode=mode)

    def passed(self):
        """The module as it goes into TVM's pipeline."""
        module = self.module
        for each in self.passes:
            module = each(module)
        return module

    def after(self):
        """The module after TVM's pipeline for Relax, which `relax.build` runs first."""
        with tvm.target.Target("llvm"):
            return relax.get_pipeline("default")(self.passed())

    def lowered(self, packed=False):
        """The same after TVM's pipeline for kernels, which `relax.build` runs next: as far as a kernel takes
        buffers, or to the end, where it takes packed arguments."""
        target = tvm.target.Target("llvm")
        module = tvm.tirx.transform.BindTarget(target.with_host(target))(self.after())
        pipeline, finish, _ = tvm.tirx.get_tir_pipeline("default")
        with tvm.transform.PassContext(instruments=[] if packed else [BeforePackedAPI()]):
            module = pipeline(module)
        return finish()(module) if packed else module

    def stages(self):
        """What TVM prints of the module, in the order of its passes."""
        yield "before", self.module
        yield "after", self.after()
        yield "lowered", self.lowered()
        # TVM reads no kernel of these again, and those of a model take long.
        if not self.large:
            yield "packed", self.lowered(packed=True)


@tvm.instrument.pass_instrument
class BeforePackedAPI:
    """Lets no pass run from MakePackedAPI on."""

    def __init__(self):
        self.on = True

    def should_run(self, _module, info):
        self.on = self.on and info.name != "tirx.MakePackedAPI"
        return self.on


@I.ir_module
class Add1:
    """One kernel called on the caller's memory: nothing is allocated."""

    @T.prim_func(s_tir=True)
    def add1(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                B[v] = A[v] + T.float32(1)

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Add1
        _ = cls.add1(x, y)
        return y


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
class Mlp:
    """Kernels and allocation, symbolic batch."""

    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 5), "float32")) -> R.Tensor(("n", 5), "float32"):
        with R.dataflow():
            h = R.matmul(x, w)
            r = R.nn.relu(h)
            out = R.add(r, R.const(1.0, "float32"))
            R.output(out)
        return out


@I.ir_module
class Branch:
    """`If` on a tensor, and a call of another function."""

    @R.function
    def twice(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return R.add(x, x)

    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        cls = Branch
        if c:
            y: R.Tensor((3,), "float32") = cls.twice(x)
        else:
            y: R.Tensor((3,), "float32") = R.negative(x)
        return y


@I.ir_module
class NestedIf:
    @R.function
    def main(a: R.Tensor((), "bool"), b: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")):
        if a:
            if b:
                p = R.add(x, x)
                q = p
            else:
                p1 = R.multiply(x, x)
                q = p1
            r = R.negative(q)
        else:
            s = R.abs(x)
            r = s
        return (r, x)


@I.ir_module
class IfInt:
    """Conditions of other types than bool."""

    @R.function
    def main(c: R.Tensor((), "int32"), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        k = R.astype(c, "bool")
        if k:
            y = R.add(x, R.const(1.0, "float32"))
        else:
            y = x
        return y


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
class Factorial:
    @R.function
    def fact(n: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        cls = Factorial
        more = R.greater(n, R.const(1, "int64"))
        if more:
            m = R.subtract(n, R.const(1, "int64"))
            f = cls.fact(m)
            r = R.multiply(n, f)
        else:
            r = R.const(1, "int64")
        return r

    @R.function
    def main(n: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        cls = Factorial
        return cls.fact(n)


@I.ir_module
class Mutual:
    """Two functions that call each other."""

    @R.function
    def even(n: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
        cls = Mutual
        zero = R.equal(n, R.const(0, "int64"))
        if zero:
            r: R.Tensor((), "bool") = R.const(True, "bool")
        else:
            r: R.Tensor((), "bool") = cls.odd(R.subtract(n, R.const(1, "int64")))
        return r

    @R.function
    def odd(n: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
        cls = Mutual
        zero = R.equal(n, R.const(0, "int64"))
        if zero:
            r: R.Tensor((), "bool") = R.const(False, "bool")
        else:
            r: R.Tensor((), "bool") = cls.even(R.subtract(n, R.const(1, "int64")))
        return r


@I.ir_module
class Branches:
    """TVM's interpreter crashes on the false branch."""

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
    """Reshapes, empty tuples and their calls, and a closure."""

    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("m", "n"), "float32"):
        n, m = T.int64(), T.int64()
        y = R.reshape(x, R.shape([m, n]))
        return y

    @R.function
    def closure(x: R.Tensor((1,), "float32"), y: R.Tensor((1,), "float32")):
        @R.function
        def pair(a: R.Tensor((1,), "float32")):
            return (a, x)

        r = pair(y)
        return r


@I.ir_module
class Empty:
    """Functions whose results are empty tuples; TVM's interpreter fails to call them."""

    @R.function(pure=False)
    def empty(x: R.Tensor((1,), "float32")) -> R.Tuple([]):
        return R.tuple()

    @R.function(pure=False)
    def main(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        cls = Empty
        _ = cls.empty(x)
        return x


@I.ir_module
class Closures:
    """A closure that captures, called twice, and one that a function returns."""

    @R.function
    def plus(x: R.Tensor((2,), "float32")) -> R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32")):
        @R.function
        def inner(a: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return R.add(a, x)

        return inner

    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
        cls = Closures

        @R.function
        def times(a: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return R.multiply(a, y)

        f = cls.plus(x)
        p = f(y)
        q = times(p)
        r = times(q)
        return (p, q, r)


@I.ir_module
class Applied:
    """A function as an argument."""

    @R.function
    def inc(a: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return R.add(a, R.const(1.0, "float32"))

    @R.function
    def twice(
        f: R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32")), a: R.Tensor((2,), "float32")
    ) -> R.Tensor((2,), "float32"):
        b: R.Tensor((2,), "float32") = f(a)
        c: R.Tensor((2,), "float32") = f(b)
        return c

    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        cls = Applied
        return cls.twice(cls.inc, x)


@I.ir_module
class Tuples:
    @R.function
    def swap(t: R.Tuple(R.Tensor((2,), "float32"), R.Tuple(R.Tensor((1,), "int64"), R.Tensor((), "bool")))):
        a = t[0]
        b = t[1]
        c = b[0]
        return ((c, b[1]), a)

    @R.function
    def main(x: R.Tensor((2,), "float32"), n: R.Tensor((1,), "int64"), c: R.Tensor((), "bool")):
        cls = Tuples
        u = (n, c)
        t = (x, u)
        s = cls.swap(t)
        return (s, t, s[1])


@I.ir_module
class Constants:
    @R.function
    def main():
        return (R.const([[1.0, 2.0], [3.0, 4.0]], "float32"), (R.const(5, "int64"), R.const(True, "bool")))

    @R.function
    def use(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return R.multiply(x, R.const([10.0, 0.5], "float32"))


@I.ir_module
class Prims:
    """Integers as parameters, and shapes made of them."""

    @R.function
    def main(n: R.Prim("int64"), s: R.Shape(["a", "b"])):
        a, b = T.int64(), T.int64()
        return (R.shape([a * 2, b + 1]), n)

    @R.function
    def sized(s: R.Shape(["k"])) -> R.Tensor(("k",), "float32"):
        k = T.int64()
        return R.full(R.shape([k]), R.const(2.5, "float32"))


@I.ir_module
class Words:
    """Strings and element types as values."""

    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")):
        s = R.str("a word")
        d = R.dtype("float16")
        return (s, x)


@I.ir_module
class Match:
    @R.function
    def main(x: R.Tensor(ndim=2, dtype="float32")):
        n = T.int64()
        y = R.match_cast(x, R.Tensor((n, 3), "float32"))
        return R.add(y, y)

    @R.function
    def equal(x: R.Tensor(("n", "n"), "float32"), y: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("m",), "float32"):
        return R.sum(R.matmul(x, y), axis=0)

    @R.function
    def any(x: R.Object):
        m = T.int64()
        y = R.match_cast(x, R.Tensor((m,), "int64"))
        return y


@I.ir_module
class AnyShape:
    """Shapes of unknown rank: taken, passed on, matched and used."""

    @R.function
    def main(s: R.Shape) -> R.Shape(ndim=2):
        n = T.int64()
        m = T.int64()
        t = R.match_cast(s, R.Shape([n, m]))
        return R.shape([m, n + m])

    @R.function
    def same(s: R.Shape) -> R.Shape:
        return s

    @R.function
    def called(s: R.Shape) -> R.Shape:
        cls = AnyShape
        t = cls.same(s)
        return t

    @R.function(pure=False)
    def packed(x: R.Tensor((2, "n"), "float32")) -> R.Shape:
        s = R.call_packed("vm.builtin.shape_of", x, ty_args=R.Shape)
        return s

    @R.function
    def known(x: R.Tensor) -> R.Shape:
        s = R.shape_of(x)
        return s

    @R.function
    def reshaped(x: R.Tensor((4,), "float32"), s: R.Shape) -> R.Tensor(dtype="float32"):
        y = R.add(x, x)
        z = R.reshape(y, s)
        return z


@I.ir_module
class ShapeOf:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")) -> R.Shape(ndim=2):
        s = R.shape_of(x)
        return s

    @R.function
    def spelled(x: R.Tensor((6,), "float32"), s: R.Tensor((2,), "int64")):
        t = R.tensor_to_shape(s)
        y = R.reshape(x, t)
        return y

    @R.function
    def halves(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        return (R.shape([n // 2, n % 3, n * n - 1]), R.strided_slice(x, [0], [0], [n // 2]))


@I.ir_module
class TirDyn:
    """Kernels that take symbolic extents as further arguments."""

    @T.prim_func(s_tir=True)
    def fill(n: T.int64, y: T.handle):
        m = T.int64()
        Y = T.match_buffer(y, (m,), "float32")
        for i in range(m):
            with T.sblock("b"):
                v = T.axis.spatial(m, i)
                Y[v] = T.Cast("float32", n + v)

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        cls = TirDyn
        y = R.call_tir(cls.fill, (n * 3,), out_ty=R.Tensor((n + 1,), "float32"))
        return y


@I.ir_module
class TwoOutputs:
    @T.prim_func(s_tir=True)
    def parts(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                B[v] = A[v] * T.float32(2)
                C[v] = T.Cast("int32", A[v])

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = TwoOutputs
        y = R.call_tir(cls.parts, (x,), out_ty=[R.Tensor((4,), "float32"), R.Tensor((4,), "int32")])
        return (y[1], y[0])


@I.ir_module
class InPlace:
    @T.prim_func(s_tir=True)
    def scale(A: T.Buffer((3,), "float32")):
        for i in range(3):
            with T.sblock("b"):
                v = T.axis.spatial(3, i)
                A[v] = A[v] * T.float32(3)

    @T.prim_func(s_tir=True)
    def halve(A: T.Buffer((3,), "float32"), B: T.Buffer((3,), "float32"), C: T.Buffer((3,), "float32")):
        for i in range(3):
            with T.sblock("b"):
                v = T.axis.spatial(3, i)
                B[v] = A[v] + B[v]
                C[v] = B[v] * T.float32(0.5)

    @R.function
    def main(x: R.Tensor((3,), "float32")):
        cls = InPlace
        y = R.add(x, x)
        same = R.add(x, x)
        z = R.call_tir_inplace(cls.scale, (y,), inplace_indices=[0], out_ty=[R.Tensor((3,), "float32")])
        return (z, same)

    @R.function
    def both(x: R.Tensor((3,), "float32")):
        cls = InPlace
        y = R.add(x, x)
        z = R.call_tir_inplace(cls.halve, (x, y), inplace_indices=[-1, 1], out_ty=[R.Tensor((3,), "float32"), R.Tensor((3,), "float32")])
        return z


@I.ir_module
class Types:
    """Elements of every size."""

    @R.function
    def main(x: R.Tensor((3,), "float64"), i: R.Tensor((3,), "int8"), u: R.Tensor((3,), "uint8"), h: R.Tensor((3,), "float16")):
        a = R.add(x, x)
        b = R.astype(i, "int32")
        c = R.add(u, u)
        d = R.add(h, h)
        e = R.greater(x, R.const(0.0, "float64"))
        f = R.astype(x, "int16")
        return (a, b, c, d, e, f)


@I.ir_module
class Zero:
    """Tensors without elements, and without dimensions."""

    @R.function
    def main(x: R.Tensor(("n", 0), "float32"), y: R.Tensor((), "float32")):
        n = T.int64()
        return (R.permute_dims(x), R.add(y, y), R.concat([x, x], 1), R.zeros(R.shape([n, 0]), "int8"))


@I.ir_module
class Softmax:
    @R.function
    def main(x: R.Tensor(("n", 7), "float32")) -> R.Tensor(("n", 7), "float32"):
        return R.nn.softmax(x)


@I.ir_module
class Norm:
    @R.function
    def main(x: R.Tensor((2, 6), "float32"), g: R.Tensor((6,), "float32"), b: R.Tensor((6,), "float32")):
        return (R.nn.layer_norm(x, g, b, [-1]), R.mean(x, [1]), R.max(x), R.argmax(x, 1))


@I.ir_module
class Conv:
    @R.function
    def main(x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
        y = R.nn.conv2d(x, w, padding=(1, 1), strides=(2, 2))
        z = R.nn.relu(y)
        return R.nn.max_pool2d(z, (2, 2), (2, 2))


@I.ir_module
class Take:
    @R.function
    def main(x: R.Tensor((5, 3), "float32"), i: R.Tensor(("k",), "int64")):
        return (R.take(x, i, 0), R.gather_elements(x, R.const([[0, 1, 2]], "int64"), 0))


@I.ir_module
class Moves:
    @R.function
    def main(x: R.Tensor((2, 6), "float32")):
        p = R.split(x, 3, 1)
        a = R.concat([p[2], p[0]], 0)
        b = R.permute_dims(x, [1, 0])
        c = R.nn.pad(x, [0, 0, 1, 2])
        return (a, b, c, R.expand_dims(p[1], 0), R.tile(x, [2, 1]), R.flip(x, 1))


@I.ir_module
class Logic:
    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        c = R.less(x, y)
        return (R.where(c, x, y), R.logical_not(c), R.clip(x, -0.5, 0.5), R.maximum(x, y))


@I.ir_module
class Batch:
    @R.function
    def main(q: R.Tensor(("b", 4, 8), "float32"), k: R.Tensor(("b", 4, 8), "float32")):
        s = R.matmul(q, R.permute_dims(k, [0, 2, 1]))
        p = R.nn.softmax(R.multiply(s, R.const(0.35, "float32")))
        return R.matmul(p, k)


@I.ir_module
class Memory:
    """Buffers of several types and sizes that the planner lets share storage."""

    @R.function
    def main(x: R.Tensor(("n", 16), "float32")):
        with R.dataflow():
            a = R.exp(R.negative(R.abs(x)))
            b = R.astype(a, "float16")
            c = R.astype(b, "float32")
            d = R.concat([c, a], 1)
            e = R.sum(d, [1])
            f = R.multiply(R.expand_dims(e, 1), x)
            g = R.astype(R.round(f), "int8")
            R.output(g)
        return g


@I.ir_module
class Sub:
    """Functions of dynamic shape that call each other."""

    @R.function
    def norm(x: R.Tensor(("k",), "float32")) -> R.Tensor(("k",), "float32"):
        return R.divide(x, R.sum(x, keepdims=True))

    @R.function
    def both(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
        cls = Sub
        a = cls.norm(x)
        b = cls.norm(y)
        return R.concat([a, b], 0)

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        cls = Sub
        z = cls.both(x, x)
        w = cls.both(z, x)
        return (z, w)


@I.ir_module
class Cell:
    """A gated recurrent step, unrolled."""

    @R.function
    def step(x: R.Tensor((1, 4), "float32"), h: R.Tensor((1, 4), "float32"), w: R.Tensor((8, 8), "float32")):
        z = R.concat([x, h], 1)
        g = R.matmul(z, w)
        p = R.split(g, 2, 1)
        u = R.sigmoid(p[0])
        c = R.tanh(p[1])
        return R.add(R.multiply(u, h), R.multiply(R.subtract(R.const(1.0, "float32"), u), c))

    @R.function
    def main(x: R.Tensor((1, 4), "float32"), h: R.Tensor((1, 4), "float32"), w: R.Tensor((8, 8), "float32")):
        cls = Cell
        a = cls.step(x, h, w)
        b = cls.step(x, a, w)
        c = cls.step(x, b, w)
        return (c, a)


@I.ir_module
class Identity:
    @R.function
    def main(x: R.Tensor) -> R.Tensor:
        return x

    @R.function
    def object(x: R.Object) -> R.Object:
        return x


@I.ir_module
class Packed:
    """Builtins called by name."""

    @R.function(pure=False)
    def main(x: R.Tensor((2, 3), "float32")):
        a = R.call_packed("vm.builtin.copy", x, ty_args=R.Tensor((2, 3), "float32"))
        b = R.call_packed("vm.builtin.reshape", a, R.shape([3, 2]), ty_args=R.Tensor((3, 2), "float32"))
        c = R.call_packed("vm.builtin.to_device", b, 1, 0, "global", ty_args=R.Tensor((3, 2), "float32"))
        d = R.call_packed("vm.builtin.ensure_zero_offset", c, ty_args=R.Tensor((3, 2), "float32"))
        return (d, b)


@I.ir_module
class Scalars:
    """Integers computed from shapes and passed on."""

    @R.function(pure=False)
    def main(x: R.Tensor(("n", "m"), "float32")):
        n, m = T.int64(), T.int64()
        a = R.prim_value(n * m + 7)
        return (a, R.prim_value(-3))


@I.ir_module
class Index:
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        return (R.cumsum(x), R.take(x, R.const([1, 0], "int64")), R.scatter_elements(x, R.const([0], "int64"), R.const([9.0], "float32")))


@I.ir_module
class Casts:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), s: R.Tensor((2,), "int64")):
        m = T.int64()
        k = T.int64()
        sh = R.tensor_to_shape(s)
        _ = R.match_cast(sh, R.Shape([m, k]))
        y = R.zeros(R.shape([m, k]), "float32")
        z = R.match_cast(x, R.Tensor((m, 4), "float32"))
        return (R.add(y, y), R.sum(z))


@I.ir_module
class Sorts:
    """Kernels that call packed functions of TVM's contrib library."""

    @R.function
    def main(x: R.Tensor((3, 5), "float32")):
        return (R.argsort(x, 1), R.sort(x, 0, True), R.topk(x, 2, 1))

    @R.function
    def ties(x: R.Tensor((1, 5), "int64")):
        return (R.argsort(x, -1, True), R.topk(x, 3, -1, "indices"))


@I.ir_module
class Unary:
    @R.function
    def main(x: R.Tensor((5,), "float32")):
        return (R.exp(x), R.tanh(x), R.sqrt(R.abs(x)), R.erf(x), R.floor(x), R.nn.gelu(x), R.nn.silu(x))


@I.ir_module
class Helpers:
    """Operators without a kernel, which TVM's Python package runs."""

    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "int64"), s: R.Shape(["k", "m"])):
        return (R.unique(x), R.unique(x, sorted=False, return_index=True, return_inverse=True, return_counts=True),
                R.nonzero(x), R.shape_to_tensor(s))

    @R.function
    def columns(x: R.Tensor((2, 3), "float32")):
        return (R.unique(x, axis=1, return_counts=True), R.nonzero(x))

    @R.function(pure=False)
    def checked(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
        _ = R.assert_op(c, [x], format="x is {}")
        return x


@I.ir_module
class TwoCpus:
    """A product on each of two devices."""

    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})

    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((3, 4), "float32"), z: R.Tensor((4, 5), "float32")):
        with R.dataflow():
            a = R.matmul(x, y)
            b = R.hint_on_device(a, tvm.cpu(0))
            c: R.Tensor((2, 4), "float32", "llvm:1") = R.to_vdevice(b, "llvm:1")
            d: R.Tensor((4, 5), "float32", "llvm:1") = R.to_vdevice(z, "llvm:1")
            e = R.matmul(c, d)
            R.output(e)
        return e


def two_cpus(mode):
    module = TwoCpus
    for each in (relax.transform.RealizeVDevice(), relax.transform.LegalizeOps(), tvm.s_tir.transform.DefaultGPUSchedule()):
        module = each(module)
    return relax.build(module, exec_mode=mode)


def goto_loop(_mode):
    """A backward jump, which Relax has no source form for."""
    b = relax.ExecBuilder()
    with b.function("main", num_inputs=3):
        b.emit_call("dec", args=[b.r(0), b.r(1)])
        b.emit_call("add1", args=[b.r(2), b.r(2)])
        b.emit_call("vm.builtin.read_if_cond", args=[b.r(1)], dst=b.r(3))
        b.emit_if(b.r(3), 2)
        b.emit_goto(-4)
        b.emit_ret(b.r(2))
    functions = [(gv, f) for gv, f in Recursion.functions_items() if gv.name_hint != "main"]
    mod = {gv: f.with_attr("global_symbol", gv.name_hint) for gv, f in functions}
    return _vmlink(b, "llvm", tvm.IRModule(mod))


# Types of elements; NumPy has no name for the second, which are views of bytes.
NAMED = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
RAW = (
    "bfloat16 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "float8_e8m0fnu float6_e2m3fn float6_e3m2fn float4_e2m1fn float4_e2m1fnx2 int1 int2 int4 uint1 uint2 uint4"
).split()


def pool(_mode):
    """Constants of every type: large integers, texts, types, shapes, and tensors of all elements."""
    tensors = [tvm.runtime.tensor(np.array([[0, 1, 1]]).astype(name)) for name in NAMED]
    for name in RAW:
        # The serialized form has whole bytes for each element.
        data = np.arange(1, 1 + 3 * ((tvm.DataType(name).bits + 7) // 8), dtype="uint8")
        tensors.append(tvm.runtime.tensor(data)._create_view((3,), name))
    # TVM writes tensors without elements and does not read them again.
    tensors.append(tvm.runtime.tensor(np.array(2.5, "float32")))
    others = [2**60, -(2**62), "", 'a "word"\n\u00e9', tvm.DataType("float8_e4m3fn"), tvm.DataType("float32x4")]
    b = relax.ExecBuilder()
    with b.function("main", num_inputs=1):
        constants = [*others, tvm.runtime.ShapeTuple([]), tvm.runtime.ShapeTuple([-1, 2**40]), *tensors]
        converted = [b.convert_constant(each) for each in constants]
        given = [each for each, value in zip(converted, constants) if not isinstance(value, tvm.DataType)]
        b.emit_call("vm.builtin.make_tuple", args=[b.r(0), *given], dst=b.r(1))
        b.emit_ret(b.r(1))
    return _vmlink(b, "llvm", tvm.IRModule({}))


def by_name(_mode):
    """Functions that a program finds by name while it runs."""
    b = relax.ExecBuilder()
    b.declare_function("vm.builtin.make_tuple")
    call = lambda name, *args, to=None: b.emit_call(f"vm.builtin.{name}", args=list(args), dst=to)
    pair, nothing = b.convert_constant("pair"), b.convert_constant("nothing")
    line, known = b.convert_constant("line 3"), b.convert_constant("vm.builtin.make_tuple")
    with b.function("call", num_inputs=1):
        call("register_py_func", pair, b.f("vm.builtin.make_tuple"))
        call("make_tuple", b.r(0), b.imm(5), to=b.r(1))
        call("make_tuple", pair, b.r(1), to=b.r(2))
        call("call_py_func", b.r(2), to=b.r(3))
        b.emit_ret(b.r(3))
    with b.function("got", num_inputs=0):
        call("get_py_func", pair, to=b.r(0))
        call("invoke_closure", b.vm_state(), b.r(0), b.imm(1), b.imm(2), to=b.r(1))
        b.emit_ret(b.r(1))
    with b.function("given", num_inputs=1):
        call("call_py_func", b.r(0), to=b.r(1))
        b.emit_ret(b.r(1))
    with b.function("debug", num_inputs=1):
        call("invoke_debug_func", b.r(0), known, line, b.r(0), to=b.r(1))
        b.emit_ret(b.r(1))
    with b.function("no_debug", num_inputs=0):
        call("invoke_debug_func", b.void_arg(), nothing, line, to=b.r(0))
        b.emit_ret(b.r(0))
    with b.function("clear", num_inputs=0):
        call("clear_py_func_registry")
        call("memory_manager.clear", to=b.r(0))
        b.emit_ret(b.r(0))
    return _vmlink(b, "llvm", tvm.IRModule({}))


def checks(_mode):
    """Checks, and every code of extents."""
    b = relax.ExecBuilder()
    b.declare_function("vm.builtin.make_tuple")
    call = lambda name, *args, to=None: b.emit_call(f"vm.builtin.{name}", args=list(args), dst=to)
    at, int32 = b.convert_constant("at x"), b.convert_constant(tvm.DataType("int32"))
    for name, more in (("shape_info", (b.imm(2),)), ("prim_value_info", (int32,)), ("string_info", ()), ("func_info", ()), ("tuple_info", (b.imm(2),))):
        with b.function(name, num_inputs=1):
            call(f"check_{name}", b.r(0), *more, at)
            b.emit_ret(b.r(0))
    with b.function("reset", num_inputs=1):
        call("make_tuple", b.r(0), b.imm(2), to=b.r(1))
        call("tuple_reset_item", b.r(1), b.imm(0))
        b.emit_ret(b.r(1))
    with b.function("dyn", num_inputs=2):
        call("call_tir_dyn", b.f("vm.builtin.make_tuple"), b.r(0), b.r(1), to=b.r(2))
        b.emit_ret(b.r(2))
    with b.function("spelled", num_inputs=1):
        call("tensor_to_shape", b.r(0), to=b.r(1))
        b.emit_ret(b.r(1))
    with b.function("codes", num_inputs=2):
        call("alloc_shape_heap", b.vm_state(), b.imm(3), to=b.r(2))
        for code in (1, 2, 3):
            call("match_prim_value", b.r(1), b.r(2), b.imm(code), b.imm(0), at)
        codes = [b.imm(each) for each in (4, 0, 2, 1, 1, 2, 0, 3, 0)]
        call("match_shape", b.r(0), b.r(2), *codes, at)
        call("make_prim_value", b.r(2), b.imm(1), b.imm(1), to=b.r(3))
        call("match_prim_value", b.r(3), b.r(2), b.imm(0), b.imm(5), at)
        call("make_shape", b.r(2), *[b.imm(each) for each in (3, 0, 7, 1, 0, 1, 1)], to=b.r(4))
        b.emit_ret(b.r(4))
    return _vmlink(b, "llvm", tvm.IRModule({}))


def operands(_mode):
    """Every kind of operand and constant, by hand."""
    b = relax.ExecBuilder()
    with b.function("main", num_inputs=1):
        b.emit_call("vm.builtin.make_tuple", args=[
            b.r(0), b.imm(-5), b.convert_constant("word"), b.convert_constant(tvm.DataType("int8")),
            b.convert_constant(tvm.runtime.ShapeTuple([3, 4])),
            b.convert_constant(tvm.runtime.tensor(np.arange(3, dtype="int32"))),
        ], dst=b.r(1))
        b.emit_call("vm.builtin.tuple_getitem", args=[b.r(1), b.imm(4)], dst=b.r(2))
        b.emit_ret(b.r(2))
    return _vmlink(b, "llvm", tvm.IRModule({}))


C_SOURCE = r"""
typedef struct { int type; unsigned pad; union { long long i; void* p; } v; } Any;
typedef struct {
  void* data; int device[2]; int ndim; unsigned dtype; long long* shape; long long* strides;
  unsigned long long offset;
} View;
/* A tensor object has its view behind a header of 24 bytes. */
static View* view(const Any* a) { return (View*)(a->type == 7 ? a->v.p : (char*)a->v.p + 24); }
/* Whether it is a tensor of one dimension of float32. */
static int fits(const Any* a) {
  return (a->type == 7 || a->type == 70) && view(a)->ndim == 1 && view(a)->dtype == 0x12002;
}
#ifdef __cplusplus
extern "C"
#endif
int __tvm_ffi_c_twice(void* self, const Any* args, int n, Any* result) {
  View *x, *y;
  /* Damaged executables give it anything. */
  if (n != 2 || !fits(args) || !fits(args + 1)) return 0;
  x = view(args), y = view(args + 1);
  if (x->shape[0] != y->shape[0]) return 0;
  for (long long i = 0; i < x->shape[0]; ++i) ((float*)y->data)[i] = 2 * ((float*)x->data)[i];
  return 0;
}
"""


def imported(_mode):
    """A function of an imported module: C source, which the exporter compiles into the library."""
    module = tvm.get_global_func("runtime.CSourceModuleCreate")(C_SOURCE, "c", ["c_twice"], [])
    b = relax.ExecBuilder()
    with b.function("main", num_inputs=2):
        b.emit_call("c_twice", args=[b.r(0), b.r(1)])
        b.emit_ret(b.r(1))
    return _vmlink(b, "llvm", tvm.IRModule({}), ext_libs=[module])


# Inputs of real models that TVM's importer takes.
MODELS = {
    "oww_embedding": {"input_1": ("float32", (1, 76, 32, 1))},
    "pplcnet_orient": {"x": ("float32", (1, 3, 224, 224))},
    "minilm_l3_fp32": {"input_ids": ("int64", (1, 16)), "attention_mask": ("int64", (1, 16))},
}


def skip(name, need):
    """Records what does not run here as tests/common/skip.rs does."""
    line = f"{name} needs {need}\n"
    file = os.environ.get("REFLEX_SKIPS")
    if file is None:
        sys.stderr.write(f"skipped: {line}")
    else:
        with open(file, "a", encoding="utf-8") as out:
            out.write(line)


def models():
    """Real models through TVM's ONNX importer, where $REFLEX_MODELS says where they are: with their
    parameters as constants, and as arguments, so that scripts are of a readable size."""
    folder = os.environ.get("REFLEX_MODELS")
    if folder is None:
        skip("tests/tvm/subjects.py::models", "REFLEX_MODELS, which ./x test sets")
        return
    sys.path += [path for path in [os.environ.get("REFLEX_ONNX_SITE")] if path]
    import onnx
    from tvm.relax.frontend import detach_params
    from tvm.relax.frontend.onnx import from_onnx

    for name, inputs in MODELS.items():
        model = onnx.load(f"{folder}/{name}.onnx")
        shapes = {name: list(shape) for name, (_, shape) in inputs.items()}
        module = from_onnx(model, shape_dict=shapes)
        args = [f32(*shape) if dtype == "float32" else np.ones(shape, dtype) for dtype, shape in inputs.values()]
        build = lambda mode, module=module: relax.build(module, target="llvm", exec_mode=mode)
        yield Subject(name, None, [("main", args)], builder=build, large=True)
        module, params = detach_params(from_onnx(model, shape_dict=shapes, keep_params_in_input=True))
        args = args + [param.numpy() for param in params["main"]]
        yield Subject(f"{name}_params", module, [("main", args)], modes=BOTH[:1], trusted=BOTH[:1], large=True)


# Models that TVM's importer refuses, with the inputs asked for and a part of its own reason.
REFUSED = {
    "magika": ({"bytes": (1, 2048)}, "Reshape requires the input new shape to be Shape"),
    "silero_vad": ({"input": (1, 512), "state": (2, 1, 128), "sr": ()}, "Dynamic pads are not supported yet"),
}


def refused():
    """What TVM's importer says of the models that it refuses: lines for the list of comparisons."""
    folder = os.environ.get("REFLEX_MODELS")
    if folder is None:
        return
    import onnx
    from tvm.relax.frontend.onnx import from_onnx

    for name, (shapes, reason) in REFUSED.items():
        try:
            from_onnx(onnx.load(f"{folder}/{name}.onnx"), shape_dict={key: list(shape) for key, shape in shapes.items()})
        except Exception as error:  # noqa: BLE001: its reason is compared
            said = " ".join(str(error).split())
            assert reason in said, f"{name}: {said}"
            yield f"{name} is refused by TVM's own ONNX importer: {type(error).__name__}: {said}"
        else:
            raise AssertionError(f"TVM's importer takes {name} now: make it one of the models")


def subjects():
    yield from small()
    yield from models()


def small():
    lift = [relax.transform.LambdaLift()]
    yes, no = np.array(True), np.array(False)
    x4, w85 = f32(4), f32(8, 5)
    wrong = np.zeros((4,), "int32")
    one = lambda func, *calls: [(func, list(args)) for args in calls]
    return [
        Subject("add1", Add1, one("main", (x4, f32(4)), (x4,), (), (x4, x4, x4), (wrong, f32(4)), (f32(5), f32(4)), (f32(4, 1), f32(4)), (3, f32(4)))),
        Subject("chain", Chain, one("main", (f32(1),), (3,), (np.zeros(1, "int32"),))),
        Subject("mlp", Mlp, one("main", *[(f32(n, 8), w85) for n in (1, 7, 3, 0)], (f32(3, 7), w85), (f32(8), w85))),
        Subject("branch", Branch, one("main", (yes, f32(3)), (no, f32(3)), (np.array(1.5, "float32"), f32(3)))),
        Subject("nested_if", NestedIf, one("main", *[(a, b, f32(3)) for a in (yes, no) for b in (yes, no)])),
        Subject("if_int", IfInt, one("main", *[(np.array(k, "int32"), f32(2)) for k in (0, 1, -2)])),
        Subject("recursion", Recursion, one("main", (i64(1), no, f32(1)), (i64(40), no, f32(1)))),
        Subject("factorial", Factorial, one("main", *[(np.array(n),) for n in (0, 1, 5, 12)])),
        Subject("mutual", Mutual, one("even", *[(np.array(n),) for n in (0, 1, 7, 10)]) + one("odd", (np.array(3),))),
        Subject("branches", Branches, one("main", (yes, f32(2, 3)))),
        Subject("symbolic", Symbolic, one("main", (f32(2, 5),), (f32(7, 1),), (f32(2),)) + one("closure", (f32(1), f32(1))), passes=lift),
        Subject("empty", Empty, one("main", (f32(1),)), trusted=("compiled",)),
        Subject("closures", Closures, one("main", (f32(2), f32(2))), passes=lift),
        Subject("applied", Applied, one("main", (f32(2),)) + one("twice", (3, f32(2)))),
        Subject("tuples", Tuples, one("main", (f32(2), i64(4), yes)) + one("swap", ((f32(2), (i64(9), no)),), ((f32(2),),), (4,))),
        Subject("constants", Constants, one("main", ()) + one("use", (f32(2),))),
        Subject("prims", Prims, one("main", (3, Shape((2, 5))), (True, Shape((0, 0))), (2.5, Shape((1, 1))), (3, Shape((1,))), (3, 4)) + one("sized", (Shape((3,)),))),
        Subject("words", Words, one("main", (f32(2),))),
        Subject("match", Match, one("main", (f32(2, 3),), (f32(2, 4),), (f32(3),)) + one("equal", (f32(2, 2), f32(2, 3)), (f32(2, 3), f32(2, 3)), (f32(2, 2), f32(3, 3))) + one("any", (i64(1, 2),), (f32(2),), (5,), (Shape((2,)),))),
        Subject("shape_of", ShapeOf, one("main", (f32(2, 5),)) + one("spelled", (f32(6), i64(2, 3)), (f32(6), i64(-1, 6))) + one("halves", (f32(7),), (f32(2),))),
        Subject("any_shape", AnyShape, one("main", (Shape((2, 5)),), (Shape((2,)),), (3,)) + one("same", (Shape((1, 2, 3)),), (f32(2),)) + one("called", (Shape(()),)) + one("packed", (f32(2, 5),)) + one("known", (i64(1, 2),), (f32(2, 3, 1),), (3,)) + one("reshaped", (f32(4), Shape((2, 2))), (f32(4), Shape((4, 1, 1))), (f32(4), Shape((3,))), (f32(4), 4))),
        Subject("tir_dyn", TirDyn, one("main", (f32(2),), (f32(5),))),
        Subject("two_outputs", TwoOutputs, one("main", (f32(4),))),
        Subject("in_place", InPlace, one("main", (f32(3),)) + one("both", (f32(3),))),
        Subject("types", Types, one("main", (np.array([1.5, -2.25, 0.0]), np.array([1, -2, 3], "int8"), np.array([1, 200, 3], "uint8"), np.array([1, 2.5, -3], "float16")))),
        Subject("zero", Zero, one("main", (f32(3, 0), f32()))),
        Subject("softmax", Softmax, one("main", (f32(1, 7),), (f32(4, 7),))),
        Subject("norm", Norm, one("main", (f32(2, 6), f32(6), f32(6)))),
        Subject("conv", Conv, one("main", (f32(1, 3, 8, 8), f32(4, 3, 3, 3)))),
        Subject("take", Take, one("main", (f32(5, 3), i64(4, 0)), (f32(5, 3), i64(2)))),
        Subject("moves", Moves, one("main", (f32(2, 6),))),
        Subject("logic", Logic, one("main", (f32(4), f32(4)))),
        Subject("batch", Batch, one("main", (f32(2, 4, 8), f32(2, 4, 8)), (f32(1, 4, 8), f32(2, 4, 8)))),
        Subject("memory", Memory, one("main", *[(f32(n, 16),) for n in (1, 5, 33, 2)])),
        Subject("sub", Sub, one("main", (np.abs(f32(3)),), (np.abs(f32(8)),))),
        Subject("cell", Cell, one("main", (f32(1, 4), f32(1, 4), f32(8, 8)))),
        Subject("identity", Identity, one("main", (f32(2, 2),), (3,)) + one("object", (3,), (f32(1),), ("word",))),
        Subject("packed", Packed, one("main", (f32(2, 3),))),
        Subject("scalars", Scalars, one("main", (f32(2, 5),), (f32(0, 3),))),
        Subject("index", Index, one("main", (f32(6),), (f32(3),))),
        Subject("casts", Casts, one("main", (f32(3, 4), i64(3, 2)), (f32(2, 4), i64(3, 2)))),
        Subject("sorts", Sorts, one("main", (f32(3, 5),)) + one("ties", (np.array([[2, 1, 2, 1, 3]], "int64"),))),
        Subject("imported", None, one("main", (f32(3), f32(3))), modes=("bytecode",), trusted=("bytecode",), builder=imported),
        Subject(
            "helpers", None,
            one("main", (i64(7, 3, 0, 7, 1), Shape((4, 5))), (i64(), Shape((0, 1)))) + one("columns", (np.array([[2, 1, 2], [0, 3, 0]], "float32"),))
            + one("checked", (yes, f32(2)), (no, f32(2))),
            builder=lambda mode: relax.build(Helpers, target="llvm", exec_mode=mode),
        ),
        Subject("two_cpus", None, one("main", (f32(2, 3), f32(3, 4), f32(4, 5))), builder=two_cpus, cpus=2),
        Subject("unary", Unary, one("main", (f32(5),))),
        Subject("goto", None, one("main", (i64(1), no, f32(1)), (i64(25), no, f32(1))), modes=("bytecode",), trusted=("bytecode",), builder=goto_loop),
        Subject("pool", None, one("main", (3,)), modes=("bytecode",), trusted=("bytecode",), builder=pool),
        Subject(
            "by_name", None,
            one("call", (3,)) + one("got", ()) + one("given", (3,), (("pair", (1, 2)),), (("pair",),), (("nothing", ()),))
            + one("debug", (None,), (f32(2),), (3,)) + one("no_debug", ()) + one("clear", ()) + one("got", ()),
            modes=("bytecode",), trusted=("bytecode",), builder=by_name,
        ),
        Subject(
            "checks", None,
            one("shape_info", (Shape((1, 2)),), (Shape((1,)),), (3,)) + one("prim_value_info", (3,), (2.5,), (True,), (Shape((1,)),))
            + one("string_info", ("word",), (3,)) + one("func_info", (3,)) + one("tuple_info", ((1, 2),), ((1,),), (3,))
            + one("reset", (f32(1),)) + one("dyn", (3, Shape((4, 5))), (3, 4))
            + one("spelled", (i64(3, 4),), (f32(2),), (np.ones((2, 2), "int64"),), (np.array([1, 2], "int32"),), (np.array([1, 2], "int8"),))
            + one("codes", (Shape((2, 5, 9, 4)), 4), (Shape((3, 5, 9, 4)), 4), (Shape((2, 5, 9, 3)), 4), (Shape((2, 6, 9, 4)), 4), (Shape((2, 5, 9)), 4), (f32(2, 5, 1, 4), 4)),
            modes=("bytecode",), trusted=("bytecode",), builder=checks,
        ),
        Subject("operands", None, one("main", (f32(2),)), modes=("bytecode",), trusted=("bytecode",), builder=operands),
    ]
