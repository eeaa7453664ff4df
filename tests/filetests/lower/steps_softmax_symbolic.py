# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((40, n), dtype="float32")) -> R.Tensor((40, n), dtype="float32"):
        a: R.Tensor((40, n), dtype="float32") = R.nn.softmax(x, axis=-1)
        return a
# ----
softmax
  step  exp: its rows are kept where the last result goes
  step  max, exp, sum, normalize: fuse_adjacent i0 of max, i0 of exp
  step  max, exp, sum, normalize: fuse_adjacent i0 of max, i0 of sum
  step  max, exp, sum, normalize: fuse_adjacent i0 of max, i0 of normalize
  step  max, exp, sum, normalize: store_at max i0 Local
  step  max, exp, sum, normalize: store_at sum i0 Local
  step  max: split k0 of max by 32 -> k0_0, k0_1
  step  max: rfactor max k0_1 -> max_rf
  step  max: set_scope t2_rf Local
  step  max: decompose_reduction max_rf k0_0 -> max_rf_init
  step  max: split k0_1 of max_rf_init by 8 -> k0_1_0, k0_1_1
  step  max: vectorize k0_1_1
  step  max: unroll k0_1_0
  step  max: partition k0_0 at n // 32 -> k0_0, k0_0_tail
  step  max: split k0_1 by 8 -> k0_1_0, k0_1_1
  step  max: separate_full_tiles max_rf_tail k0_1_1 of max_rf_tail: ((n - ((n // 32) * 32)) - (k0_0_tail * 32)) - (k0_1_0 of max_rf_tail * 8)
  step  max: vectorize k0_1_1 of max_rf_tail
  step  max: vectorize k0_1_1 of max_rf_tail_part
  step  max: unroll k0_1_0 of max_rf_tail
  step  max: split k0_1 of max_rf by 8 -> k0_1_0, k0_1_1
  step  max: vectorize k0_1_1 of max_rf
  step  max: unroll k0_1_0 of max_rf
  step  max: tree_reduce max k0_1 -> max_half
  step  max: split k0_1 of max_half by 8 -> k0_1_0, k0_1_1
  step  max: vectorize k0_1_1 of max_half
  step  max: unroll k0_1_0 of max_half
  step  max: tree_reduce max k0_1 -> max_half_1
  step  max: vectorize k0_1 of max_half_1
  step  max: tree_reduce max k0_1 of max -> max_half_2
  step  max: vectorize k0_1 of max_half_2
  step  max: tree_reduce max k0_1 of max -> max_half_3
  step  max: vectorize k0_1 of max_half_3
  step  max: tree_reduce max k0_1 of max
  step  exp: split i1 of exp by 8 -> i1_0, i1_1
  step  exp: vectorize i1_1
  step  sum: split k0 by 32 -> k0_0, k0_1
  step  sum: rfactor sum k0_1 of sum -> sum_rf
  step  sum: set_scope t4_rf Local
  step  sum: decompose_reduction sum_rf k0_0 of sum_rf -> sum_rf_init
  step  sum: split k0_1 of sum_rf_init by 8 -> k0_1_0, k0_1_1
  step  sum: vectorize k0_1_1 of sum_rf_init
  step  sum: unroll k0_1_0 of sum_rf_init
  step  sum: partition k0_0 of sum_rf at n // 32 -> k0_0 of sum_rf, k0_0_tail
  step  sum: split k0_1 by 8 -> k0_1_0, k0_1_1
  step  sum: separate_full_tiles sum_rf_tail k0_1_1 of sum_rf_tail: ((n - ((n // 32) * 32)) - (k0_0_tail of sum_rf_tail * 32)) - (k0_1_0 of sum_rf_tail * 8)
  step  sum: vectorize k0_1_1 of sum_rf_tail
  step  sum: vectorize k0_1_1 of sum_rf_tail_part
  step  sum: unroll k0_1_0 of sum_rf_tail
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
  step  normalize: split i1 by 8 -> i1_0, i1_1
  step  normalize: vectorize i1_1 of normalize
  stage max: row reduction
  stage exp: elementwise
  stage sum: row reduction
  stage normalize: elementwise
