# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(q: R.Tensor((1, 16, 4, 32), dtype="float32"), k: R.Tensor((1, 16, 4, 32), dtype="float32"), v: R.Tensor((1, 16, 4, 32), dtype="float32")) -> R.Tensor((1, 16, 4, 32), dtype="float32"):
        a: R.Tensor((1, 16, 4, 32), dtype="float32") = R.nn.attention(q, k, v)
        return a
# ----
fused_transpose_transpose_transpose_mat_mul_mul_3more
  step  transpose: inlined into its readers
  step  transpose_1: inlined into its readers
  step  transpose_2: inlined into its readers
  step  binary: inlined into its readers
  step  matmul_1: stored where transpose_3 would move it
  step  matmul: columns packed into panels
  step  panels: split c of panels #2 by 16 -> c_0, c_1
  step  panels: split lane by 8 -> lane_0, lane_1
  step  panels: reorder c, c_0, lane_0, c_1, lane_1
  step  panels: vectorize lane_1
  step  matmul, max, exp, sum, normalize, matmul_1: in blocks of 16 rows
  step  matmul: tile of 6 rows by 2 vectors of 8 lanes, depth over v_k0; outer loops over (), columns inside; no threads
  step  matmul, 6 rows by 2 vectors: distribute_loops r, v, l over 2
  step  matmul, 6 rows by 2 vectors: reorder k0, r of matmul, v of matmul, l of matmul
  step  matmul, 6 rows by 2 vectors: decompose_reduction matmul k0 -> matmul_init
  step  matmul, 6 rows by 2 vectors: unroll r of matmul_init
  step  matmul, 6 rows by 2 vectors: unroll v of matmul_init
  step  matmul, 6 rows by 2 vectors: vectorize l of matmul_init
  step  matmul, 6 rows by 2 vectors: reorder l, r, v of matmul
  step  matmul, 6 rows by 2 vectors: vectorize l of matmul
  step  matmul, 6 rows by 2 vectors: unroll_and_jam matmul r, v of matmul
  step  matmul, 6 rows by 2 vectors: unroll r of matmul_store
  step  matmul, 6 rows by 2 vectors: reorder l, v of matmul_store
  step  matmul, 6 rows by 2 vectors: vectorize l of matmul_store
  step  matmul, 6 rows by 2 vectors: unroll_and_jam matmul_store v of matmul_store
  step  matmul, 4 rows by 2 vectors: distribute_loops r, v, l over 2
  step  matmul, 4 rows by 2 vectors: reorder k0, r of matmul, v of matmul, l of matmul
  step  matmul, 4 rows by 2 vectors: decompose_reduction matmul k0 -> matmul_init
  step  matmul, 4 rows by 2 vectors: unroll r of matmul_init
  step  matmul, 4 rows by 2 vectors: unroll v of matmul_init
  step  matmul, 4 rows by 2 vectors: vectorize l of matmul_init
  step  matmul, 4 rows by 2 vectors: reorder l, r, v of matmul
  step  matmul, 4 rows by 2 vectors: vectorize l of matmul
  step  matmul, 4 rows by 2 vectors: unroll_and_jam matmul r, v of matmul
  step  matmul, 4 rows by 2 vectors: unroll r of matmul_store
  step  matmul, 4 rows by 2 vectors: reorder l, v of matmul_store
  step  matmul, 4 rows by 2 vectors: vectorize l of matmul_store
  step  matmul, 4 rows by 2 vectors: unroll_and_jam matmul_store v of matmul_store
  step  max, exp, sum, normalize: fuse_adjacent row of max, row of exp
  step  max, exp, sum, normalize: fuse_adjacent row of max, row of sum
  step  max, exp, sum, normalize: fuse_adjacent row of max, row of normalize
  step  max, exp, sum, normalize: store_at max row Local
  step  max, exp, sum, normalize: store_at exp row Local
  step  max, exp, sum, normalize: store_at sum row Local
  step  max: rfactor max k0 of max -> max_rf
  step  max: set_scope t9_rf Local
  step  max: decompose_reduction max_rf k0 of max_rf -> max_rf_init
  step  max: split k0 of max_rf_init by 8 -> k0_0, k0_1
  step  max: vectorize k0_1
  step  max: unroll k0_0
  step  max: split k0 of max_rf by 8 -> k0_0, k0_1
  step  max: vectorize k0_1 of max_rf
  step  max: unroll k0_0 of max_rf
  step  max: tree_reduce max k0 of max -> max_half
  step  max: vectorize k0 of max_half
  step  max: tree_reduce max k0 of max -> max_half_1
  step  max: vectorize k0 of max_half_1
  step  max: tree_reduce max k0 of max -> max_half_2
  step  max: vectorize k0 of max_half_2
  step  max: tree_reduce max k0 of max
  step  exp: split i3 of exp by 8 -> i3_0, i3_1
  step  exp: vectorize i3_1
  step  sum: rfactor sum k0 of sum -> sum_rf
  step  sum: set_scope t11_rf Local
  step  sum: decompose_reduction sum_rf k0 of sum_rf -> sum_rf_init
  step  sum: split k0 of sum_rf_init by 8 -> k0_0, k0_1
  step  sum: vectorize k0_1 of sum_rf_init
  step  sum: unroll k0_0 of sum_rf_init
  step  sum: split k0 of sum_rf by 8 -> k0_0, k0_1
  step  sum: vectorize k0_1 of sum_rf
  step  sum: unroll k0_0 of sum_rf
  step  sum: tree_reduce sum k0 of sum -> sum_half
  step  sum: vectorize k0 of sum_half
  step  sum: tree_reduce sum k0 of sum -> sum_half_1
  step  sum: vectorize k0 of sum_half_1
  step  sum: tree_reduce sum k0 of sum -> sum_half_2
  step  sum: vectorize k0 of sum_half_2
  step  sum: tree_reduce sum k0 of sum
  step  normalize: split i3 by 8 -> i3_0, i3_1
  step  normalize: vectorize i3_1 of normalize
  step  matmul_1: tile of 4 rows by 2 vectors of 8 lanes, depth over v_k0; outer loops over (), columns inside; no threads
  step  matmul_1, 4 rows by 2 vectors: distribute_loops r, v, l over 2
  step  matmul_1, 4 rows by 2 vectors: reorder k0, r of matmul_1, v of matmul_1, l of matmul_1
  step  matmul_1, 4 rows by 2 vectors: decompose_reduction matmul_1 k0 -> matmul_1_init
  step  matmul_1, 4 rows by 2 vectors: unroll r of matmul_1_init
  step  matmul_1, 4 rows by 2 vectors: unroll v of matmul_1_init
  step  matmul_1, 4 rows by 2 vectors: vectorize l of matmul_1_init
  step  matmul_1, 4 rows by 2 vectors: reorder l, r, v of matmul_1
  step  matmul_1, 4 rows by 2 vectors: vectorize l of matmul_1
  step  matmul_1, 4 rows by 2 vectors: unroll_and_jam matmul_1 r, v of matmul_1
  step  matmul_1, 4 rows by 2 vectors: unroll r of matmul_1_store
  step  matmul_1, 4 rows by 2 vectors: reorder l, v of matmul_1_store
  step  matmul_1, 4 rows by 2 vectors: vectorize l of matmul_1_store
  step  matmul_1, 4 rows by 2 vectors: unroll_and_jam matmul_1_store v of matmul_1_store
  step  matmul, max, exp, sum, normalize, matmul_1: threads share the blocks
  stage panels: elementwise
  stage matmul: gemm
  stage max: row reduction
  stage exp: elementwise
  stage sum: row reduction
  stage normalize: elementwise
  stage matmul_1: gemm
