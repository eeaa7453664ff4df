# after: steps
# amx
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 768), dtype="uint8"), w: R.Tensor((768, 384), dtype="int8")) -> R.Tensor(("n", 384), dtype="int32"):
        y: R.Tensor(("n", 384), dtype="int32") = R.matmul(x, w, out_dtype="int32")
        return y
# ----
mat_mul_integer
  step  words0: collapse_axes i0, i1 -> m
  step  words0: specialize m where n * 192 >= 10000, else m_else
  step  words0: split m by 2048 -> m_0, m_1
  step  words0: split m_1 by 16 -> m_1_0, m_1_1
  step  words0: vectorize m_1_1
  step  words0: parallel m_0
  step  words0: split m_else by 16 -> m_else_0, m_else_1
  step  words0: vectorize m_else_1
  step  words1: parallel i0
  step  words1: split i1 by 16 -> i1_0, i1_1
  step  words1: vectorize i1_1
  step  matmul: tile of 32 rows by 2 vectors of 16 lanes, depth over v_k0; outer loops over (), columns inside; threads share tiles of columns; VNNI-packed 8-bit integers on AMX tiles
  step  matmul: blocks of 10 tiles of rows
  step  matmul: tensorize -> 4 tile_dot_u8s8, 4 tile_load, 4 tile_store_int32, 4 tile_zero_int32
  step  matmul: tensorize -> 2 tile_dot_u8s8, 3 tile_load, 2 tile_store_int32, 2 tile_zero_int32
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
  stage words0: elementwise
  stage words1: elementwise
  stage matmul: gemm
