# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 64), dtype="uint8"), w: R.Tensor((64, 32), dtype="int8"), s: R.Tensor((), dtype="float32")) -> R.Tensor((n, 32), dtype="float32"):
        a: R.Tensor((n, 32), dtype="int32") = R.matmul(x, w, out_dtype="int32")
        b: R.Tensor((n, 32), dtype="float32") = R.astype(a, dtype="float32")
        c: R.Tensor((n, 32), dtype="float32") = R.multiply(b, s)
        return c
# ----
fused_mat_mul_integer_cast_mul
  step  cast: inlined into its readers
  step  words0: collapse_axes i0, i1 -> m
  step  words0: specialize m where n * 16 >= 10000, else m_else
  step  words0: split m by 1024 -> m_0, m_1
  step  words0: split m_1 by 8 -> m_1_0, m_1_1
  step  words0: vectorize m_1_1
  step  words0: parallel m_0
  step  words0: split m_else by 8 -> m_else_0, m_else_1
  step  words0: vectorize m_else_1
  step  words1: split i1 by 8 -> i1_0, i1_1
  step  words1: vectorize i1_1
  step  matmul: tile of 6 rows by 2 vectors of 8 lanes, depth over v_k0; outer loops over (), columns inside; no threads; dot products of VNNI-packed 8-bit integers
  step  matmul, 6 rows by 2 vectors: distribute_loops r, v, l over 2
  step  matmul, 6 rows by 2 vectors: reorder k0, r of matmul, v of matmul, l of matmul
  step  matmul, 6 rows by 2 vectors: decompose_reduction matmul k0 -> matmul_init
  step  matmul, 6 rows by 2 vectors: unroll r of matmul_init
  step  matmul, 6 rows by 2 vectors: unroll v of matmul_init
  step  matmul, 6 rows by 2 vectors: vectorize l of matmul_init
  step  matmul, 6 rows by 2 vectors: reorder l, r, v of matmul
  step  matmul, 6 rows by 2 vectors: vectorize l of matmul
  step  matmul, 6 rows by 2 vectors: unroll_and_jam matmul r, v of matmul
  step  matmul, 6 rows by 2 vectors: cache_read_at matmul_store acc r of matmul_store Local -> acc_local
  step  matmul, 6 rows by 2 vectors: unroll r of acc_local
  step  matmul, 6 rows by 2 vectors: unroll v of acc_local
  step  matmul, 6 rows by 2 vectors: vectorize l of acc_local
  step  matmul, 6 rows by 2 vectors: reorder l, v of matmul_store
  step  matmul, 6 rows by 2 vectors: vectorize l of matmul_store
  step  matmul, 6 rows by 2 vectors: unroll_and_jam matmul_store v of matmul_store
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
  stage binary: epilogue of gemm
