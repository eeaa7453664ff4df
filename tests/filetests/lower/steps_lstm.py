# after: steps
# The steps in time are a loop; what does not depend on the state is one product before it.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((16, 1, 32), dtype="float32"), w: R.Tensor((1, 128, 32), dtype="float32"), r: R.Tensor((1, 128, 32), dtype="float32"), b: R.Tensor((1, 256), dtype="float32"), h: R.Tensor((1, 1, 32), dtype="float32"), c: R.Tensor((1, 1, 32), dtype="float32")) -> R.Tensor((16, 1, 1, 32), dtype="float32"):
        s = R.reflex.lstm(x, w, r, b, h, c, hidden=32, activations=["sigmoid", "tanh", "tanh"])
        a: R.Tensor((16, 1, 1, 32), dtype="float32") = s[0]
        return a
# ----
rnn
  step  input: columns packed into panels
  step  panels: split c by 16 -> c_0, c_1
  step  panels: split lane by 8 -> lane_0, lane_1
  step  panels: reorder panel, c_0, lane_0, c_1, lane_1
  step  panels: vectorize lane_1
  step  input: tile of 6 rows by 2 vectors of 8 lanes, depth over v_k0; outer loops over (), columns inside; no threads
  step  input, 6 rows by 2 vectors: distribute_loops r, v, l over 2
  step  input, 6 rows by 2 vectors: reorder k0, r of input, v of input, l of input
  step  input, 6 rows by 2 vectors: decompose_reduction input k0 -> input_init
  step  input, 6 rows by 2 vectors: unroll r of input_init
  step  input, 6 rows by 2 vectors: unroll v of input_init
  step  input, 6 rows by 2 vectors: vectorize l of input_init
  step  input, 6 rows by 2 vectors: reorder l, r, v of input
  step  input, 6 rows by 2 vectors: vectorize l of input
  step  input, 6 rows by 2 vectors: unroll_and_jam input r, v of input
  step  input, 6 rows by 2 vectors: unroll r of input_store
  step  input, 6 rows by 2 vectors: reorder l, v of input_store
  step  input, 6 rows by 2 vectors: vectorize l of input_store
  step  input, 6 rows by 2 vectors: unroll_and_jam input_store v of input_store
  step  input, 4 rows by 2 vectors: distribute_loops r, v, l over 2
  step  input, 4 rows by 2 vectors: reorder k0, r of input, v of input, l of input
  step  input, 4 rows by 2 vectors: decompose_reduction input k0 -> input_init
  step  input, 4 rows by 2 vectors: unroll r of input_init
  step  input, 4 rows by 2 vectors: unroll v of input_init
  step  input, 4 rows by 2 vectors: vectorize l of input_init
  step  input, 4 rows by 2 vectors: reorder l, r, v of input
  step  input, 4 rows by 2 vectors: vectorize l of input
  step  input, 4 rows by 2 vectors: unroll_and_jam input r, v of input
  step  input, 4 rows by 2 vectors: unroll r of input_store
  step  input, 4 rows by 2 vectors: reorder l, v of input_store
  step  input, 4 rows by 2 vectors: vectorize l of input_store
  step  input, 4 rows by 2 vectors: unroll_and_jam input_store v of input_store
  step  start: split i1 by 8 -> i1_0, i1_1
  step  start: vectorize i1_1
  step  start_1: split i1 by 8 -> i1_0, i1_1
  step  start_1: vectorize i1_1
  step  recurrent: rfactor recurrent k0 -> recurrent_rf
  step  recurrent: set_scope t12_rf Local
  step  recurrent: decompose_reduction recurrent_rf k0 of recurrent_rf -> recurrent_rf_init
  step  recurrent: split k0 of recurrent_rf_init by 8 -> k0_0, k0_1
  step  recurrent: vectorize k0_1
  step  recurrent: unroll k0_0
  step  recurrent: split k0 of recurrent_rf by 8 -> k0_0, k0_1
  step  recurrent: vectorize k0_1 of recurrent_rf
  step  recurrent: unroll k0_0 of recurrent_rf
  step  recurrent: tree_reduce recurrent k0 -> recurrent_half
  step  recurrent: split k0 of recurrent_half by 8 -> k0_0, k0_1
  step  recurrent: vectorize k0_1 of recurrent_half
  step  recurrent: unroll k0_0 of recurrent_half
  step  recurrent: tree_reduce recurrent k0 -> recurrent_half_1
  step  recurrent: vectorize k0 of recurrent_half_1
  step  recurrent: tree_reduce recurrent k0 of recurrent -> recurrent_half_2
  step  recurrent: vectorize k0 of recurrent_half_2
  step  recurrent: tree_reduce recurrent k0 of recurrent -> recurrent_half_3
  step  recurrent: vectorize k0 of recurrent_half_3
  step  recurrent: tree_reduce recurrent k0 of recurrent
  step  cell: split i1 by 8 -> i1_0, i1_1
  step  cell: vectorize i1_1
  step  hidden: split i1 by 8 -> i1_0, i1_1
  step  hidden: vectorize i1_1
  step  emit: split i1 by 8 -> i1_0, i1_1
  step  emit: vectorize i1_1
  step  last: split i1 by 8 -> i1_0, i1_1
  step  last: vectorize i1_1
  step  last_1: split i1 by 8 -> i1_0, i1_1
  step  last_1: vectorize i1_1
  stage panels: elementwise
  stage input: gemm
  stage start: elementwise
  stage start_1: elementwise
  stage recurrent: row reduction; not gemm: elements not contiguous
  stage cell: elementwise
  stage hidden: elementwise
  stage emit: elementwise
  stage last: elementwise
  stage last_1: elementwise
