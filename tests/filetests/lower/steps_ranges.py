# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32"), w: R.Tensor((64, 32), dtype="float32")) -> R.Tuple(R.Tensor((n, 32), dtype="float32"), R.Tensor((), dtype="float32")):
        y: R.Tensor((n, 32), dtype="float32") = R.matmul(x, w)
        most: R.Tensor((), dtype="float32") = R.max(y, axis=[0, 1], keepdims=False)
        least: R.Tensor((), dtype="float32") = R.min(y, axis=[0, 1], keepdims=False)
        a: R.Tensor((), dtype="float32") = R.maximum(most, R.const(0.0, "float32"))
        b: R.Tensor((), dtype="float32") = R.minimum(least, R.const(0.0, "float32"))
        span: R.Tensor((), dtype="float32") = R.subtract(a, b)
        scale: R.Tensor((), dtype="float32") = R.divide(span, R.const(255.0, "float32"))
        z: R.Tensor((n, 32), dtype="float32") = R.divide(y, scale)
        return (z, scale)
# ----
div
  step  binary: collapse_axes i0, i1 -> m
  step  binary: specialize m where n * 32 >= 16666, else m_else
  step  binary: split m by 1024 -> m_0, m_1
  step  binary: split m_1 by 8 -> m_1_0, m_1_1
  step  binary: vectorize m_1_1
  step  binary: parallel m_0
  step  binary: split m_else by 8 -> m_else_0, m_else_1
  step  binary: vectorize m_else_1
  stage binary: elementwise
fused_mat_mul_max_min_max_min_2more
  step  binary: inlined into its readers
  step  binary_1: inlined into its readers
  step  binary_2: inlined into its readers
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
  step  reduce: taken where its operand is stored
  step  reduce_1: taken where its operand is stored
  stage matmul: gemm
  stage reduce: stored extremum
  stage reduce_1: stored extremum
  stage binary_3: elementwise
