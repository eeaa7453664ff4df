# after: lower
# gpu: cuda:sm_90a
# A product of bfloat16 by warp-specialised blocks: boxes of both operands are copied ahead of the products, and each block computes several tiles.
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2000, 72), dtype="bfloat16"), w: R.Tensor((72, 2312), dtype="bfloat16")) -> R.Tensor((2000, 2312), dtype="bfloat16"):
        a: R.Tensor((2000, 2312), dtype="bfloat16") = R.matmul(x, w)
        return a
# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def mat_mul(t0: T.Buffer((T.int64(2000), T.int64(72)), "bfloat16"), t1: T.Buffer((T.int64(72), T.int64(2312)), "bfloat16"), t2: T.Buffer((T.int64(2000), T.int64(2312)), "bfloat16")):
    for bx in T.thread_binding(T.int64(66), thread="blockIdx.x"):
        for cx in T.thread_binding(T.int64(2), thread="clusterCtaIdx.x"):
            a_tile = T.alloc_shared((T.int64(128), T.int64(64)), "bfloat16")
            b_tile = T.alloc_shared((T.int64(256), T.int64(64)), "bfloat16")
            for ty in T.thread_binding(T.int64(2), thread="threadIdx.y"):
                for tx in T.thread_binding(T.int64(128), thread="threadIdx.x"):
                    acc = T.alloc_local((T.int64(1), T.int64(1), T.int64(128)))
                    for t in range((T.int64(13) - bx) // T.int64(66) + T.int64(2)):
                        T.tvm_storage_sync("shared")
                        tile: T.let[T.int64] = bx + t * T.int64(66)
                        row: T.let[T.int64] = tile // T.int64(40) * T.int64(1024) + tile % T.int64(4) * T.int64(256) + cx * T.int64(128)
                        column: T.let[T.int64] = tile // T.int64(4) % T.int64(10) * T.int64(256)
                        for n in T.unroll(T.int64(128)):
                            acc[T.int64(0), T.int64(0), n] = T.float32(0.0)
                        for k0 in T.serial(T.int64(2), annotations={"reflex.pipeline_stages": 4}):
                            T.tvm_storage_sync("shared")
                            if ty < T.int64(1):
                                if tx < T.int64(1):
                                    T.tile_box(a_tile[T.int64(0)], t0, T.int64(72), T.int64(1), k0 * T.int64(64), 64, T.int64(2000), T.int64(72), row, 128)
                                    T.tile_box(b_tile[T.int64(0)], t1, T.int64(2312), T.int64(1), column, 64, T.int64(72), T.int64(2312), k0 * T.int64(64), 64)
                                    T.tile_box(b_tile[T.int64(4096)], t1, T.int64(2312), T.int64(1), column + T.int64(64), 64, T.int64(72), T.int64(2312), k0 * T.int64(64), 64)
                                    T.tile_box(b_tile[T.int64(8192)], t1, T.int64(2312), T.int64(1), column + T.int64(128), 64, T.int64(72), T.int64(2312), k0 * T.int64(64), 64)
                                    T.tile_box(b_tile[T.int64(12288)], t1, T.int64(2312), T.int64(1), column + T.int64(192), 64, T.int64(72), T.int64(2312), k0 * T.int64(64), 64)
                            T.tvm_storage_sync("shared")
                            for kk in T.unroll(T.int64(4)):
                                T.tile_wgmma(256, acc[T.int64(0)], a_tile[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b_tile[kk * T.int64(1024)], T.int64(4096), True, tx)
                        for n in T.unroll(T.int64(64)):
                            if row + ty * T.int64(64) + tx // T.int64(32) * T.int64(16) + tx // T.int64(4) % T.int64(8) + n % T.int64(2) * T.int64(8) < T.int64(2000) and column + tx % T.int64(4) * T.int64(2) + n // T.int64(2) * T.int64(8) < T.int64(2312):
                                for l in T.vectorized(T.int64(2)):
                                    t2[row + ty * T.int64(64) + tx // T.int64(32) * T.int64(16) + tx // T.int64(4) % T.int64(8) + n % T.int64(2) * T.int64(8), column + tx % T.int64(4) * T.int64(2) + n // T.int64(2) * T.int64(8) + l] = T.Cast("bfloat16", acc[T.int64(0), T.int64(0), n * T.int64(2) + l])
