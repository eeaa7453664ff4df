# after: steps
# precision: bf16
# amx
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 768), dtype="float32"), w: R.Tensor((768, 384), dtype="float32")) -> R.Tensor(("n", 384), dtype="float32"):
        h: R.Tensor(("n", 384), dtype="float32") = R.matmul(x, w)
        y: R.Tensor(("n", 384), dtype="float32") = R.nn.relu(h)
        return y
# ----
fused_mat_mul_max
  step  pairs0: collapse_axes i0, i1 -> m
  step  pairs0: specialize m where n * 384 >= 5000, else m_else
  step  pairs0: split m by 2048 -> m_0, m_1
  step  pairs0: split m_1 by 16 -> m_1_0, m_1_1
  step  pairs0: vectorize m_1_1
  step  pairs0: parallel m_0
  step  pairs0: split m_else by 16 -> m_else_0, m_else_1
  step  pairs0: vectorize m_else_1
  step  pairs1: parallel i0
  step  pairs1: split i1 by 16 -> i1_0, i1_1
  step  pairs1: vectorize i1_1
  step  matmul: tile of 32 rows by 2 vectors of 16 lanes, depth over v_k0; outer loops over (), columns inside; threads share tiles of columns; VNNI-packed bfloat16 on AMX tiles
  step  matmul: blocks of 5 tiles of rows
  step  matmul: tensorize -> 4 tile_dot_bf16, 4 tile_load, 4 tile_store, 4 tile_zero
  step  matmul: tensorize -> 2 tile_dot_bf16, 3 tile_load, 2 tile_store, 2 tile_zero
  step  matmul, 4 rows by 2 vectors: distribute_loops r, v, l over 2
  step  matmul, 4 rows by 2 vectors: reorder k0, r of matmul, v of matmul, l of matmul
  step  matmul, 4 rows by 2 vectors: decompose_reduction matmul k0 -> matmul_init
  step  matmul, 4 rows by 2 vectors: unroll r of matmul_init
  step  matmul, 4 rows by 2 vectors: unroll v of matmul_init
  step  matmul, 4 rows by 2 vectors: vectorize l of matmul_init
  step  matmul, 4 rows by 2 vectors: reorder l, r, v of matmul
  step  matmul, 4 rows by 2 vectors: vectorize l of matmul
  step  matmul, 4 rows by 2 vectors: unroll_and_jam matmul r, v of matmul
  step  matmul, 4 rows by 2 vectors: cache_read_at matmul_store acc r of matmul_store Local -> acc_local
  step  matmul, 4 rows by 2 vectors: unroll r of acc_local
  step  matmul, 4 rows by 2 vectors: unroll v of acc_local
  step  matmul, 4 rows by 2 vectors: vectorize l of acc_local
  step  matmul, 4 rows by 2 vectors: reorder l, v of matmul_store
  step  matmul, 4 rows by 2 vectors: vectorize l of matmul_store
  step  matmul, 4 rows by 2 vectors: unroll_and_jam matmul_store v of matmul_store
  step  matmul, 1 rows by 2 vectors: distribute_loops r, v, l over 2
  step  matmul, 1 rows by 2 vectors: reorder k0, r of matmul, v of matmul, l of matmul
  step  matmul, 1 rows by 2 vectors: decompose_reduction matmul k0 -> matmul_init
  step  matmul, 1 rows by 2 vectors: unroll r of matmul_init
  step  matmul, 1 rows by 2 vectors: unroll v of matmul_init
  step  matmul, 1 rows by 2 vectors: vectorize l of matmul_init
  step  matmul, 1 rows by 2 vectors: reorder l, r, v of matmul
  step  matmul, 1 rows by 2 vectors: vectorize l of matmul
  step  matmul, 1 rows by 2 vectors: unroll_and_jam matmul r, v of matmul
  step  matmul, 1 rows by 2 vectors: unroll r of matmul_store
  step  matmul, 1 rows by 2 vectors: reorder l, v of matmul_store
  step  matmul, 1 rows by 2 vectors: vectorize l of matmul_store
  step  matmul, 1 rows by 2 vectors: unroll_and_jam matmul_store v of matmul_store
  stage pairs0: elementwise
  stage pairs1: elementwise
  stage matmul: gemm
  stage binary: epilogue of gemm
