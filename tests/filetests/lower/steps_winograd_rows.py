# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 40, 32, 1), dtype="float32")) -> R.Tensor((n, 48, 36, 1), dtype="float32"):
        w: R.Tensor((48, 32, 5, 1), dtype="float32") = R.zeros(R.shape([48, 32, 5, 1]), dtype="float32")
        t: R.Tensor((n, 32, 40, 1), dtype="float32") = R.permute_dims(x, axes=[0, 2, 1, 3])
        c: R.Tensor((n, 48, 36, 1), dtype="float32") = R.nn.conv2d(t, w)
        return c
# ----
conv
  step  pad: v_i1 split into blocks of 16
  step  input_tiles: v_i4 split into blocks of 16
  step  output_tiles: v_i1 split into blocks of 16
  step  bias: v_i1 split into blocks of 16
  step  pad: collapse_axes i0, co -> m
  step  pad: split i2 by 16 -> i2_0, i2_1
  step  pad: split ci by 8 -> ci_0, ci_1
  step  pad: reorder m, i2_0, ci_0, i2_1, ci_1
  step  pad: parallel m where n * 6144 >= 100000 -> task, m
  step  pad: vectorize ci_1
  step  input_tiles: constant matrices of 8x8 unrolled, vectors of 16 lanes
  step  products: tile of 5 rows by 2 vectors of 8 lanes, depth over v_k0; outer loops over (v_i1, v_i0), columns inside; threads share the outermost loop
  step  products, 5 rows by 2 vectors: distribute_loops r, v, l over 2
  step  products, 5 rows by 2 vectors: reorder k0, r of products, v of products, l of products
  step  products, 5 rows by 2 vectors: decompose_reduction products k0 -> products_init
  step  products, 5 rows by 2 vectors: unroll r of products_init
  step  products, 5 rows by 2 vectors: unroll v of products_init
  step  products, 5 rows by 2 vectors: vectorize l of products_init
  step  products, 5 rows by 2 vectors: reorder l, r, v of products
  step  products, 5 rows by 2 vectors: vectorize l of products
  step  products, 5 rows by 2 vectors: unroll_and_jam products r, v of products
  step  products, 5 rows by 2 vectors: unroll r of products_store
  step  products, 5 rows by 2 vectors: reorder l, v of products_store
  step  products, 5 rows by 2 vectors: vectorize l of products_store
  step  products, 5 rows by 2 vectors: unroll_and_jam products_store v of products_store
  step  products, 4 rows by 2 vectors: distribute_loops r, v, l over 2
  step  products, 4 rows by 2 vectors: reorder k0, r of products, v of products, l of products
  step  products, 4 rows by 2 vectors: decompose_reduction products k0 -> products_init
  step  products, 4 rows by 2 vectors: unroll r of products_init
  step  products, 4 rows by 2 vectors: unroll v of products_init
  step  products, 4 rows by 2 vectors: vectorize l of products_init
  step  products, 4 rows by 2 vectors: reorder l, r, v of products
  step  products, 4 rows by 2 vectors: vectorize l of products
  step  products, 4 rows by 2 vectors: unroll_and_jam products r, v of products
  step  products, 4 rows by 2 vectors: unroll r of products_store
  step  products, 4 rows by 2 vectors: reorder l, v of products_store
  step  products, 4 rows by 2 vectors: vectorize l of products_store
  step  products, 4 rows by 2 vectors: unroll_and_jam products_store v of products_store
  step  output_tiles: constant matrices of 4x8 unrolled, vectors of 16 lanes
  step  bias: split of `bias` refused: its last vector would be a large part of it
  step  bias: collapse_axes i0, co -> m
  step  bias: partition i2 at 32 -> i2, i2_tail
  step  bias: vectorize i2_tail
  step  bias: split i2 by 8 -> i2_0, i2_1
  step  bias: vectorize i2_1
  stage pad: elementwise
  stage input_tiles: winograd transform
  stage products: gemm
  stage output_tiles: winograd transform
  stage bias: elementwise
transpose
  step  transpose: split i1 by 16 -> i1_0, i1_1
  step  transpose: split i2 by 8 -> i2_0, i2_1
  step  transpose: reorder i0, i1_0, i2_0, i1_1, i2_1
  step  transpose: parallel i2_0 where n * 2560 >= 100000 -> task, i2_0
  step  transpose: vectorize i2_1
  stage transpose: elementwise
