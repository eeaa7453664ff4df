# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 100), dtype="float32"), g: R.Tensor((100,), dtype="float32"), b: R.Tensor((100,), dtype="float32")) -> R.Tensor((n, 100), dtype="float32"):
        a: R.Tensor((n, 100), dtype="float32") = R.nn.layer_norm(x, g, b, axes=[-1], epsilon=1.0000000000000001e-05)
        return a
# ----
layer_norm
  step  rstd: inlined into its readers
  step  sum, mean, squares, normalize: fuse_adjacent i0 of sum, i0 of mean
  step  sum, mean, squares, normalize: fuse_adjacent i0 of sum, i0 of squares
  step  sum, mean, squares, normalize: fuse_adjacent i0 of sum, i0 of normalize
  step  sum, mean, squares, normalize: store_at sum i0 Local
  step  sum, mean, squares, normalize: store_at mean i0 Local
  step  sum, mean, squares, normalize: store_at squares i0 Local
  step  sum, mean, squares, normalize: parallel i0 where n * 2505 >= 100000 -> task, i0
  step  sum: split k0 of sum by 32 -> k0_0, k0_1
  step  sum: rfactor sum k0_1 -> sum_rf
  step  sum: set_scope t4_rf Local
  step  sum: decompose_reduction sum_rf k0_0 -> sum_rf_init
  step  sum: split k0_1 of sum_rf_init by 8 -> k0_1_0, k0_1_1
  step  sum: vectorize k0_1_1
  step  sum: unroll k0_1_0
  step  sum: partition k0_0 at 3 -> k0_0, k0_0_tail
  step  sum: separate_full_tiles sum_rf_tail k0_1: 4
  step  sum: vectorize k0_1 of sum_rf_tail
  step  sum: split k0_1 of sum_rf by 8 -> k0_1_0, k0_1_1
  step  sum: vectorize k0_1_1 of sum_rf
  step  sum: unroll k0_1_0 of sum_rf
  step  sum: tree_reduce sum k0_1 of sum -> sum_half
  step  sum: split k0_1 of sum_half by 8 -> k0_1_0, k0_1_1
  step  sum: vectorize k0_1_1 of sum_half
  step  sum: unroll k0_1_0 of sum_half
  step  sum: tree_reduce sum k0_1 of sum -> sum_half_1
  step  sum: vectorize k0_1 of sum_half_1
  step  sum: tree_reduce sum k0_1 of sum -> sum_half_2
  step  sum: vectorize k0_1 of sum_half_2
  step  sum: tree_reduce sum k0_1 of sum -> sum_half_3
  step  sum: vectorize k0_1 of sum_half_3
  step  sum: tree_reduce sum k0_1 of sum
  step  squares: split k0 by 32 -> k0_0, k0_1
  step  squares: rfactor squares k0_1 of squares -> squares_rf
  step  squares: set_scope t6_rf Local
  step  squares: decompose_reduction squares_rf k0_0 of squares_rf -> squares_rf_init
  step  squares: split k0_1 of squares_rf_init by 8 -> k0_1_0, k0_1_1
  step  squares: vectorize k0_1_1 of squares_rf_init
  step  squares: unroll k0_1_0 of squares_rf_init
  step  squares: partition k0_0 of squares_rf at 3 -> k0_0 of squares_rf, k0_0_tail
  step  squares: separate_full_tiles squares_rf_tail k0_1: 4
  step  squares: vectorize k0_1 of squares_rf_tail
  step  squares: split k0_1 of squares_rf by 8 -> k0_1_0, k0_1_1
  step  squares: vectorize k0_1_1 of squares_rf
  step  squares: unroll k0_1_0 of squares_rf
  step  squares: tree_reduce squares k0_1 of squares -> squares_half
  step  squares: split k0_1 of squares_half by 8 -> k0_1_0, k0_1_1
  step  squares: vectorize k0_1_1 of squares_half
  step  squares: unroll k0_1_0 of squares_half
  step  squares: tree_reduce squares k0_1 of squares -> squares_half_1
  step  squares: vectorize k0_1 of squares_half_1
  step  squares: tree_reduce squares k0_1 of squares -> squares_half_2
  step  squares: vectorize k0_1 of squares_half_2
  step  squares: tree_reduce squares k0_1 of squares -> squares_half_3
  step  squares: vectorize k0_1 of squares_half_3
  step  squares: tree_reduce squares k0_1 of squares
  step  normalize: partition i1 at 96 -> i1, i1_tail
  step  normalize: vectorize i1_tail
  step  normalize: split i1 by 8 -> i1_0, i1_1
  step  normalize: vectorize i1_1
  stage sum: row reduction
  stage mean: elementwise
  stage squares: row reduction
  stage normalize: elementwise
