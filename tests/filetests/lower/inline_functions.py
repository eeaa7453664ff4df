# after: inline_functions
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
m = TypeVar("m")
@I.ir_module
class Module:
    @R.function
    def small(x: R.Tensor((m,), dtype="float32"), y: R.Tensor((m,), dtype="float32")) -> R.Tensor((m,), dtype="float32"):
        s: R.Tensor((m,), dtype="float32") = R.add(x, R.multiply(y, R.const(2.0, "float32")))
        return s

    @R.function(private=True)
    def once(x: R.Tensor((m,), dtype="float32"), go: R.Tensor((), dtype="bool")) -> R.Tensor((m,), dtype="float32"):
        cls = Module
        a: R.Tensor((m,), dtype="float32") = R.exp(x)
        b: R.Tensor((m,), dtype="float32") = R.sin(a)
        c: R.Tensor((m,), dtype="float32") = R.cos(b)
        d: R.Tensor((m,), dtype="float32") = R.tanh(c)
        e: R.Tensor((m,), dtype="float32") = R.negative(d)
        f: R.Tensor((m,), dtype="float32") = R.abs(e)
        g: R.Tensor((m,), dtype="float32") = R.sqrt(f)
        if go:
            h_then: R.Tensor((m,), dtype="float32") = cls.small(g, x)
            h: R.Tensor((m,), dtype="float32") = h_then
        else:
            h: R.Tensor((m,), dtype="float32") = g
        return h

    @R.function(private=True)
    def marked(x: R.Tensor((m,), dtype="float32")) -> R.Tensor((m,), dtype="float32"):
        R.func_attr({"Inline": True})
        a: R.Tensor((m,), dtype="float32") = R.exp(x)
        b: R.Tensor((m,), dtype="float32") = R.sin(a)
        c: R.Tensor((m,), dtype="float32") = R.cos(b)
        d: R.Tensor((m,), dtype="float32") = R.tanh(c)
        e: R.Tensor((m,), dtype="float32") = R.negative(d)
        f: R.Tensor((m,), dtype="float32") = R.abs(e)
        g: R.Tensor((m,), dtype="float32") = R.sqrt(f)
        h: R.Tensor((m,), dtype="float32") = R.exp(g)
        i: R.Tensor((m,), dtype="float32") = R.sin(h)
        return i

    @R.function
    def large(x: R.Tensor((m,), dtype="float32")) -> R.Tensor((m,), dtype="float32"):
        a: R.Tensor((m,), dtype="float32") = R.exp(x)
        b: R.Tensor((m,), dtype="float32") = R.sin(a)
        c: R.Tensor((m,), dtype="float32") = R.cos(b)
        d: R.Tensor((m,), dtype="float32") = R.tanh(c)
        e: R.Tensor((m,), dtype="float32") = R.negative(d)
        f: R.Tensor((m,), dtype="float32") = R.abs(e)
        g: R.Tensor((m,), dtype="float32") = R.sqrt(f)
        h: R.Tensor((m,), dtype="float32") = R.exp(g)
        i: R.Tensor((m,), dtype="float32") = R.sin(h)
        return i

    @R.function
    def recursive(x: R.Tensor((m,), dtype="float32"), go: R.Tensor((), dtype="bool")) -> R.Tensor((m,), dtype="float32"):
        cls = Module
        if go:
            y_then: R.Tensor((m,), dtype="float32") = cls.recursive(x, R.const(False, "bool"))
            y: R.Tensor((m,), dtype="float32") = y_then
        else:
            y: R.Tensor((m,), dtype="float32") = x
        return y

    @R.function
    def main(x: R.Tensor((n,), dtype="float32"), w: R.Tensor((4,), dtype="float32"), go: R.Tensor((), dtype="bool")) -> R.Tuple(R.Tensor((n,), dtype="float32"), R.Tensor((4,), dtype="float32")):
        cls = Module
        a: R.Tensor((n,), dtype="float32") = cls.small(x, x)
        b: R.Tensor((n,), dtype="float32") = cls.once(a, go)
        c: R.Tensor((n,), dtype="float32") = cls.marked(b)
        d: R.Tensor((n,), dtype="float32") = cls.marked(c)
        e: R.Tensor((n,), dtype="float32") = cls.large(d)
        f: R.Tensor((n,), dtype="float32") = cls.recursive(e, go)
        g: R.Tensor((4,), dtype="float32") = cls.small(w, w)
        return (f, g)
# ----
# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

m = TypeVar("m")
n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def small(x: R.Tensor((m,), dtype="float32"), y: R.Tensor((m,), dtype="float32")) -> R.Tensor((m,), dtype="float32"):
        gv: R.Tensor((m,), dtype="float32") = R.multiply(y, R.const(2.0, "float32"))
        s: R.Tensor((m,), dtype="float32") = R.add(x, gv)
        return s

    @R.function
    def large(x: R.Tensor((m,), dtype="float32")) -> R.Tensor((m,), dtype="float32"):
        a: R.Tensor((m,), dtype="float32") = R.exp(x)
        b: R.Tensor((m,), dtype="float32") = R.sin(a)
        c: R.Tensor((m,), dtype="float32") = R.cos(b)
        d: R.Tensor((m,), dtype="float32") = R.tanh(c)
        e: R.Tensor((m,), dtype="float32") = R.negative(d)
        f: R.Tensor((m,), dtype="float32") = R.abs(e)
        g: R.Tensor((m,), dtype="float32") = R.sqrt(f)
        h: R.Tensor((m,), dtype="float32") = R.exp(g)
        i: R.Tensor((m,), dtype="float32") = R.sin(h)
        return i

    @R.function
    def recursive(x: R.Tensor((m,), dtype="float32"), go: R.Tensor((), dtype="bool")) -> R.Tensor((m,), dtype="float32"):
        cls = Module
        if go:
            y_then: R.Tensor((m,), dtype="float32") = cls.recursive(x, R.const(False, "bool"))
            y: R.Tensor((m,), dtype="float32") = y_then
        else:
            y: R.Tensor((m,), dtype="float32") = x
        return y

    @R.function
    def main(x: R.Tensor((n,), dtype="float32"), w: R.Tensor((4,), dtype="float32"), go: R.Tensor((), dtype="bool")) -> R.Tuple(R.Tensor((n,), dtype="float32"), R.Tensor((4,), dtype="float32")):
        cls = Module
        gv: R.Tensor((n,), dtype="float32") = R.multiply(x, R.const(2.0, "float32"))
        s: R.Tensor((n,), dtype="float32") = R.add(x, gv)
        a: R.Tensor((n,), dtype="float32") = R.exp(s)
        b: R.Tensor((n,), dtype="float32") = R.sin(a)
        c: R.Tensor((n,), dtype="float32") = R.cos(b)
        d: R.Tensor((n,), dtype="float32") = R.tanh(c)
        e: R.Tensor((n,), dtype="float32") = R.negative(d)
        f: R.Tensor((n,), dtype="float32") = R.abs(e)
        g: R.Tensor((n,), dtype="float32") = R.sqrt(f)
        if go:
            gv1: R.Tensor((n,), dtype="float32") = R.multiply(s, R.const(2.0, "float32"))
            s_1: R.Tensor((n,), dtype="float32") = R.add(g, gv1)
            h: R.Tensor((n,), dtype="float32") = s_1
        else:
            h: R.Tensor((n,), dtype="float32") = g
        a_1: R.Tensor((n,), dtype="float32") = R.exp(h)
        b_1: R.Tensor((n,), dtype="float32") = R.sin(a_1)
        c_1: R.Tensor((n,), dtype="float32") = R.cos(b_1)
        d_1: R.Tensor((n,), dtype="float32") = R.tanh(c_1)
        e_1: R.Tensor((n,), dtype="float32") = R.negative(d_1)
        f_1: R.Tensor((n,), dtype="float32") = R.abs(e_1)
        g_1: R.Tensor((n,), dtype="float32") = R.sqrt(f_1)
        h_1: R.Tensor((n,), dtype="float32") = R.exp(g_1)
        i: R.Tensor((n,), dtype="float32") = R.sin(h_1)
        a_2: R.Tensor((n,), dtype="float32") = R.exp(i)
        b_2: R.Tensor((n,), dtype="float32") = R.sin(a_2)
        c_2: R.Tensor((n,), dtype="float32") = R.cos(b_2)
        d_2: R.Tensor((n,), dtype="float32") = R.tanh(c_2)
        e_2: R.Tensor((n,), dtype="float32") = R.negative(d_2)
        f_2: R.Tensor((n,), dtype="float32") = R.abs(e_2)
        g_2: R.Tensor((n,), dtype="float32") = R.sqrt(f_2)
        h_2: R.Tensor((n,), dtype="float32") = R.exp(g_2)
        i_1: R.Tensor((n,), dtype="float32") = R.sin(h_2)
        e_3: R.Tensor((n,), dtype="float32") = cls.large(i_1)
        f_3: R.Tensor((n,), dtype="float32") = cls.recursive(e_3, go)
        gv2: R.Tensor((4,), dtype="float32") = R.multiply(w, R.const(2.0, "float32"))
        s_2: R.Tensor((4,), dtype="float32") = R.add(w, gv2)
        return (f_3, s_2)
