# after: schedule
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 100), dtype="float32")) -> R.Tensor((n, 100), dtype="float32"):
        a: R.Tensor((n, 100), dtype="float32") = R.nn.relu(x)
        return a
# ----
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
@T.prim_func(s_tir=True)
def max(t0: T.Buffer((n, T.int64(100)), "float32"), t1: T.Buffer((n, T.int64(100)), "float32")):
    if n * T.int64(100) >= T.int64(133333):
        for task in T.parallel(n * T.int64(100) // T.int64(1024)):
            for v in range(T.int64(128)):
                for l in T.vectorized(T.int64(8)):
                    t1[task * T.int64(1024) + (v * T.int64(8) + l)] = T.max(t0[task * T.int64(1024) + (v * T.int64(8) + l)], T.float32(0.0))
        for v in range((n * T.int64(100) - n * T.int64(100) // T.int64(1024) * T.int64(1024)) // T.int64(8)):
            for l in T.vectorized(T.int64(8)):
                t1[n * T.int64(100) // T.int64(1024) * T.int64(1024) + (v * T.int64(8) + l)] = T.max(t0[n * T.int64(100) // T.int64(1024) * T.int64(1024) + (v * T.int64(8) + l)], T.float32(0.0))
        if (n * T.int64(100) - n * T.int64(100) // T.int64(1024) * T.int64(1024)) // T.int64(8) * T.int64(8) < n * T.int64(100) - n * T.int64(100) // T.int64(1024) * T.int64(1024):
            for l in T.vectorized(T.int64(8)):
                if (n * T.int64(100) - n * T.int64(100) // T.int64(1024) * T.int64(1024)) // T.int64(8) * T.int64(8) + l < n * T.int64(100) - n * T.int64(100) // T.int64(1024) * T.int64(1024):
                    t1[n * T.int64(100) // T.int64(1024) * T.int64(1024) + ((n * T.int64(100) - n * T.int64(100) // T.int64(1024) * T.int64(1024)) // T.int64(8) * T.int64(8) + l)] = T.max(t0[n * T.int64(100) // T.int64(1024) * T.int64(1024) + ((n * T.int64(100) - n * T.int64(100) // T.int64(1024) * T.int64(1024)) // T.int64(8) * T.int64(8) + l)], T.float32(0.0))
    else:
        for v in range(n * T.int64(100) // T.int64(8)):
            for l in T.vectorized(T.int64(8)):
                t1[v * T.int64(8) + l] = T.max(t0[v * T.int64(8) + l], T.float32(0.0))
        if n * T.int64(100) // T.int64(8) * T.int64(8) < n * T.int64(100):
            for l in T.vectorized(T.int64(8)):
                if n * T.int64(100) // T.int64(8) * T.int64(8) + l < n * T.int64(100):
                    t1[n * T.int64(100) // T.int64(8) * T.int64(8) + l] = T.max(t0[n * T.int64(100) // T.int64(8) * T.int64(8) + l], T.float32(0.0))
