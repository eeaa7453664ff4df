# after: steps
# Weights are packed in panels of 64 columns, which narrower vectors take in parts: all rows of
# a part, then the rows left over at full width where their sums fit into registers.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 32), dtype="float32"), y: R.Tensor((1, 32), dtype="float32")) -> R.Tuple(R.Tensor((n, 128), dtype="float32"), R.Tensor((1, 128), dtype="float32")):
        w: R.Tensor((32, 128), dtype="float32") = R.zeros(R.shape([32, 128]), dtype="float32")
        a: R.Tensor((n, 128), dtype="float32") = R.matmul(x, w)
        b: R.Tensor((1, 128), dtype="float32") = R.matmul(y, w)
        r: R.Tuple(R.Tensor((n, 128), dtype="float32"), R.Tensor((1, 128), dtype="float32")) = (a, b)
        return r
# ----
mat_mul
  step  matmul: tile of 6 rows by 2 vectors of 8 lanes, depth over v_k0; outer loops over (), columns inside; threads share tiles of rows
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
  step  matmul, 1 rows by 8 vectors: distribute_loops r, v, l over 2
  step  matmul, 1 rows by 8 vectors: reorder k0, r of matmul, v of matmul, l of matmul
  step  matmul, 1 rows by 8 vectors: decompose_reduction matmul k0 -> matmul_init
  step  matmul, 1 rows by 8 vectors: unroll r of matmul_init
  step  matmul, 1 rows by 8 vectors: unroll v of matmul_init
  step  matmul, 1 rows by 8 vectors: vectorize l of matmul_init
  step  matmul, 1 rows by 8 vectors: reorder l, r, v of matmul
  step  matmul, 1 rows by 8 vectors: vectorize l of matmul
  step  matmul, 1 rows by 8 vectors: unroll_and_jam matmul r, v of matmul
  step  matmul, 1 rows by 8 vectors: unroll r of matmul_store
  step  matmul, 1 rows by 8 vectors: reorder l, v of matmul_store
  step  matmul, 1 rows by 8 vectors: vectorize l of matmul_store
  step  matmul, 1 rows by 8 vectors: unroll_and_jam matmul_store v of matmul_store
  stage matmul: gemm
mat_mul1
  step  matmul: tile of 1 rows by 8 vectors of 8 lanes, depth over v_k0; outer loops over (), columns inside; no threads
  step  matmul, 1 rows by 8 vectors: distribute_loops r, v, l over 2
  step  matmul, 1 rows by 8 vectors: reorder k0, r of matmul, v of matmul, l of matmul
  step  matmul, 1 rows by 8 vectors: decompose_reduction matmul k0 -> matmul_init
  step  matmul, 1 rows by 8 vectors: unroll r of matmul_init
  step  matmul, 1 rows by 8 vectors: unroll v of matmul_init
  step  matmul, 1 rows by 8 vectors: vectorize l of matmul_init
  step  matmul, 1 rows by 8 vectors: reorder l, r, v of matmul
  step  matmul, 1 rows by 8 vectors: vectorize l of matmul
  step  matmul, 1 rows by 8 vectors: unroll_and_jam matmul r, v of matmul
  step  matmul, 1 rows by 8 vectors: unroll r of matmul_store
  step  matmul, 1 rows by 8 vectors: reorder l, v of matmul_store
  step  matmul, 1 rows by 8 vectors: vectorize l of matmul_store
  step  matmul, 1 rows by 8 vectors: unroll_and_jam matmul_store v of matmul_store
  stage matmul: gemm
