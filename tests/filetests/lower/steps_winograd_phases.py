# after: steps
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 3, 96, 96), dtype="float32")) -> R.Tensor((1, 32, 48, 48), dtype="float32"):
        u: R.Tensor((32, 3, 7, 7), dtype="float32") = R.zeros(R.shape([32, 3, 7, 7]), dtype="float32")
        a: R.Tensor((1, 32, 48, 48), dtype="float32") = R.nn.conv2d(x, u, strides=[2, 2], padding=[3, 3, 3, 3])
        c: R.Tensor((1, 32, 48, 48), dtype="float32") = R.nn.relu(a)
        return c
# ----
fused_conv_max
  step  output_tiles: v_i1 split into blocks of 16
  step  bias: v_i1 split into blocks of 16
  step  input_tiles, products, output_tiles: in strips of 1 rows of tiles
  step  phases: partition i3 at 8 -> i3, i3_tail
  step  phases: vectorize i3_tail
  step  phases: vectorize i3
  step  input_tiles: constant matrices of 6x6 and 6x6 unrolled for each column and row of a tile, vectors of 12 lanes
  step  products: tile of 4 rows by 2 vectors of 8 lanes, depth over v_k0; outer loops over (m), columns inside; no threads
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
  step  output_tiles: constant matrices of 3x6 and 3x6 unrolled for each column and row of a tile, vectors of 16 lanes
  step  input_tiles, products, output_tiles: threads share the strips
  step  bias: collapse_axes i2, i3 -> m
  step  bias: split ci by 16 -> ci_0, ci_1
  step  bias: split m by 8 -> m_0, m_1
  step  bias: reorder co, ci_0, m_0, ci_1, m_1
  step  bias: parallel m_0
  step  bias: vectorize m_1
  step  binary: collapse_axes i2, i3 -> m
  step  binary: collapse_axes i1, m -> m
  step  binary: split m by 1024 -> m_0, m_1
  step  binary: split m_1 by 8 -> m_1_0, m_1_1
  step  binary: vectorize m_1_1
  step  binary: parallel m_0
  stage phases: elementwise
  stage input_tiles: winograd transform
  stage products: gemm
  stage output_tiles: winograd transform
  stage bias: elementwise
  stage binary: elementwise
