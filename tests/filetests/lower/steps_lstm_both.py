# after: steps
# Both directions of a layer are independent loops over time, each of which has a thread.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((16, 1, 32), dtype="float32"), w: R.Tensor((2, 384, 32), dtype="float32"), r: R.Tensor((2, 384, 96), dtype="float32"), b: R.Tensor((2, 768), dtype="float32"), h: R.Tensor((2, 1, 96), dtype="float32"), c: R.Tensor((2, 1, 96), dtype="float32")) -> R.Tensor((16, 2, 1, 96), dtype="float32"):
        s = R.reflex.lstm(x, w, r, b, h, c, hidden=96, direction="both", activations=["sigmoid", "tanh", "tanh", "sigmoid", "tanh", "tanh"])
        a: R.Tensor((16, 2, 1, 96), dtype="float32") = s[0]
        return a
# ----
rnn
  step  input: columns packed into panels
  step  input_1: columns packed into panels
  step  panels: split c by 16 -> c_0, c_1
  step  panels: split lane by 8 -> lane_0, lane_1
  step  panels: reorder panel, c_0, lane_0, c_1, lane_1
  step  panels: vectorize lane_1
  step  panels: split c by 16 -> c_0, c_1
  step  panels: split lane by 8 -> lane_0, lane_1
  step  panels: reorder panel, c_0, lane_0, c_1, lane_1
  step  panels: vectorize lane_1
  step  input: tile of 6 rows by 2 vectors of 8 lanes, depth over v_k0; outer loops over (), columns inside; threads share tiles of columns
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
  step  input_1: tile of 6 rows by 2 vectors of 8 lanes, depth over v_k0; outer loops over (), columns inside; threads share tiles of columns
  step  input_1, 6 rows by 2 vectors: distribute_loops r, v, l over 2
  step  input_1, 6 rows by 2 vectors: reorder k0, r of input_1, v of input_1, l of input_1
  step  input_1, 6 rows by 2 vectors: decompose_reduction input_1 k0 -> input_1_init
  step  input_1, 6 rows by 2 vectors: unroll r of input_1_init
  step  input_1, 6 rows by 2 vectors: unroll v of input_1_init
  step  input_1, 6 rows by 2 vectors: vectorize l of input_1_init
  step  input_1, 6 rows by 2 vectors: reorder l, r, v of input_1
  step  input_1, 6 rows by 2 vectors: vectorize l of input_1
  step  input_1, 6 rows by 2 vectors: unroll_and_jam input_1 r, v of input_1
  step  input_1, 6 rows by 2 vectors: unroll r of input_1_store
  step  input_1, 6 rows by 2 vectors: reorder l, v of input_1_store
  step  input_1, 6 rows by 2 vectors: vectorize l of input_1_store
  step  input_1, 6 rows by 2 vectors: unroll_and_jam input_1_store v of input_1_store
  step  input_1, 4 rows by 2 vectors: distribute_loops r, v, l over 2
  step  input_1, 4 rows by 2 vectors: reorder k0, r of input_1, v of input_1, l of input_1
  step  input_1, 4 rows by 2 vectors: decompose_reduction input_1 k0 -> input_1_init
  step  input_1, 4 rows by 2 vectors: unroll r of input_1_init
  step  input_1, 4 rows by 2 vectors: unroll v of input_1_init
  step  input_1, 4 rows by 2 vectors: vectorize l of input_1_init
  step  input_1, 4 rows by 2 vectors: reorder l, r, v of input_1
  step  input_1, 4 rows by 2 vectors: vectorize l of input_1
  step  input_1, 4 rows by 2 vectors: unroll_and_jam input_1 r, v of input_1
  step  input_1, 4 rows by 2 vectors: unroll r of input_1_store
  step  input_1, 4 rows by 2 vectors: reorder l, v of input_1_store
  step  input_1, 4 rows by 2 vectors: vectorize l of input_1_store
  step  input_1, 4 rows by 2 vectors: unroll_and_jam input_1_store v of input_1_store
  step  start_2: split i1 by 8 -> i1_0, i1_1
  step  start_2: vectorize i1_1
  step  start_3: split i1 by 8 -> i1_0, i1_1
  step  start_3: vectorize i1_1
  step  recurrent: split k0 by 32 -> k0_0, k0_1
  step  recurrent: rfactor recurrent k0_1 -> recurrent_rf
  step  recurrent: set_scope t15_rf Local
  step  recurrent: decompose_reduction recurrent_rf k0_0 -> recurrent_rf_init
  step  recurrent: split k0_1 of recurrent_rf_init by 8 -> k0_1_0, k0_1_1
  step  recurrent: vectorize k0_1_1
  step  recurrent: unroll k0_1_0
  step  recurrent: split k0_1 of recurrent_rf by 8 -> k0_1_0, k0_1_1
  step  recurrent: vectorize k0_1_1 of recurrent_rf
  step  recurrent: unroll k0_1_0 of recurrent_rf
  step  recurrent: tree_reduce recurrent k0_1 -> recurrent_half
  step  recurrent: split k0_1 of recurrent_half by 8 -> k0_1_0, k0_1_1
  step  recurrent: vectorize k0_1_1 of recurrent_half
  step  recurrent: unroll k0_1_0 of recurrent_half
  step  recurrent: tree_reduce recurrent k0_1 -> recurrent_half_1
  step  recurrent: vectorize k0_1 of recurrent_half_1
  step  recurrent: tree_reduce recurrent k0_1 of recurrent -> recurrent_half_2
  step  recurrent: vectorize k0_1 of recurrent_half_2
  step  recurrent: tree_reduce recurrent k0_1 of recurrent -> recurrent_half_3
  step  recurrent: vectorize k0_1 of recurrent_half_3
  step  recurrent: tree_reduce recurrent k0_1 of recurrent
  step  cell: split i1 by 8 -> i1_0, i1_1
  step  cell: vectorize i1_1
  step  hidden: split i1 by 8 -> i1_0, i1_1
  step  hidden: vectorize i1_1
  step  emit: split i1 by 8 -> i1_0, i1_1
  step  emit: vectorize i1_1
  step  recurrent_1: split k0 by 32 -> k0_0, k0_1
  step  recurrent_1: rfactor recurrent_1 k0_1 -> recurrent_1_rf
  step  recurrent_1: set_scope t16_rf Local
  step  recurrent_1: decompose_reduction recurrent_1_rf k0_0 -> recurrent_1_rf_init
  step  recurrent_1: split k0_1 of recurrent_1_rf_init by 8 -> k0_1_0, k0_1_1
  step  recurrent_1: vectorize k0_1_1
  step  recurrent_1: unroll k0_1_0
  step  recurrent_1: split k0_1 of recurrent_1_rf by 8 -> k0_1_0, k0_1_1
  step  recurrent_1: vectorize k0_1_1 of recurrent_1_rf
  step  recurrent_1: unroll k0_1_0 of recurrent_1_rf
  step  recurrent_1: tree_reduce recurrent_1 k0_1 -> recurrent_1_half
  step  recurrent_1: split k0_1 of recurrent_1_half by 8 -> k0_1_0, k0_1_1
  step  recurrent_1: vectorize k0_1_1 of recurrent_1_half
  step  recurrent_1: unroll k0_1_0 of recurrent_1_half
  step  recurrent_1: tree_reduce recurrent_1 k0_1 -> recurrent_1_half_1
  step  recurrent_1: vectorize k0_1 of recurrent_1_half_1
  step  recurrent_1: tree_reduce recurrent_1 k0_1 of recurrent_1 -> recurrent_1_half_2
  step  recurrent_1: vectorize k0_1 of recurrent_1_half_2
  step  recurrent_1: tree_reduce recurrent_1 k0_1 of recurrent_1 -> recurrent_1_half_3
  step  recurrent_1: vectorize k0_1 of recurrent_1_half_3
  step  recurrent_1: tree_reduce recurrent_1 k0_1 of recurrent_1
  step  cell_1: split i1 by 8 -> i1_0, i1_1
  step  cell_1: vectorize i1_1
  step  hidden_1: split i1 by 8 -> i1_0, i1_1
  step  hidden_1: vectorize i1_1
  step  emit_1: split i1 by 8 -> i1_0, i1_1
  step  emit_1: vectorize i1_1
  step  2 independent loops: a thread for each
  step  last: split i1 by 8 -> i1_0, i1_1
  step  last: vectorize i1_1
  step  last_1: split i1 by 8 -> i1_0, i1_1
  step  last_1: vectorize i1_1
  step  last_2: split i1 by 8 -> i1_0, i1_1
  step  last_2: vectorize i1_1
  step  last_3: split i1 by 8 -> i1_0, i1_1
  step  last_3: vectorize i1_1
  stage panels: elementwise
  stage panels: elementwise
  stage input: gemm
  stage start: elementwise
  stage start_1: elementwise
  stage input_1: gemm
  stage start_2: elementwise
  stage start_3: elementwise
  stage recurrent: row reduction; not gemm: elements not contiguous
  stage cell: elementwise
  stage hidden: elementwise
  stage emit: elementwise
  stage recurrent_1: row reduction; not gemm: elements not contiguous
  stage cell_1: elementwise
  stage hidden_1: elementwise
  stage emit_1: elementwise
  stage last: elementwise
  stage last_1: elementwise
  stage last_2: elementwise
  stage last_3: elementwise
