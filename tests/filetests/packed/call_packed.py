# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import relax as R
# from tvm.script import tirx as T

n = TypeVar("n")

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def sorted_less(x: T.Buffer((n, 4), "float32"), y: T.Buffer((n, 4), "float32")):
        T.call_packed("tvm.contrib.sort.sort", x, y, 1, T.bool(True))
        for i, j in T.grid(n, 4):
            y[i, j] = y[i, j] - y[i, 0]

    @T.prim_func(s_tir=True)
    def added(x: T.Buffer((n, 4), "float32"), y: T.Buffer((n, 4), "float32")):
        s = T.alloc_buffer((n, 4))
        for i, j in T.grid(n, 4):
            s[i, j] = x[i, j] + T.float32(1.0)
        for k in range(3):
            T.call_packed("tests.packed_kernels.add", s, k, T.float32(0.5), "text", k == T.int64(1), y)

    @R.function
    def main(x: R.Tensor((n, 4), dtype="float32")) -> R.Tensor((n, 4), dtype="float32"):
        cls = Module
        y = R.call_tir(cls.sorted_less, (x,), out_ty=R.Tensor((n, 4), dtype="float32"))
        z = R.call_tir(cls.added, (y,), out_ty=R.Tensor((n, 4), dtype="float32"))
        return z
