from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T
from typing import TypeVar

m = TypeVar("m")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((m, 8192), dtype="bfloat16"), w: R.Tensor((8192, 8200), dtype="bfloat16")) -> R.Tensor((m, 8192), dtype="bfloat16"):
        cls = Module
        y = R.call_tir(cls.product, (x, w), out_ty=R.Tensor((m, 8192), dtype="bfloat16"))
        return y

    @T.prim_func(s_tir=True)
    def product(x: T.Buffer((m, T.int64(8192)), "bfloat16"), w: T.Buffer((T.int64(8192), T.int64(8200)), "bfloat16"), y: T.Buffer((m, T.int64(8192)), "bfloat16")):
        total = T.sblock_alloc_buffer((m, T.int64(8192)))
        for i, j, k in T.grid(m, T.int64(8192), T.int64(8192)):
            with T.sblock("matmul"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(x[vi, vk], w[vk, vj + T.int64(8)])
                T.writes(total[vi, vj])
                with T.init():
                    total[vi, vj] = T.float32(0.0)
                total[vi, vj] = T.fma(T.Cast("float32", x[vi, vk]), T.Cast("float32", w[vk, vj + T.int64(8)]), total[vi, vj])
        for i, j in T.grid(m, T.int64(8192)):
            with T.sblock("round"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(total[vi, vj])
                T.writes(y[vi, vj])
                y[vi, vj] = T.Cast("bfloat16", total[vi, vj])
