# after: steps
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 64, 512, 512), dtype="float32")) -> R.Tensor((1, 16, 512, 512), dtype="float32"):
        v: R.Tensor((16, 64, 3, 3), dtype="float32") = R.zeros(R.shape([16, 64, 3, 3]), dtype="float32")
        b: R.Tensor((1, 16, 512, 512), dtype="float32") = R.nn.conv2d(x, v, padding=[1, 1, 1, 1])
        c: R.Tensor((1, 16, 512, 512), dtype="float32") = R.nn.relu(b)
        return c
# ----
fused_conv_max
  step  pad: v_i1 split into blocks of 16
  step  input_tiles: v_i5 split into blocks of 16
  step  bias: inlined into its readers
  step  input_tiles, products, output_tiles: in strips of 1 rows of tiles
  step  pad: split i3 by 16 -> i3_0, i3_1
  step  pad: split ci by 8 -> ci_0, ci_1
  step  pad: reorder co, row, i3_0, ci_0, i3_1, ci_1
  step  pad: vectorize ci_1
  step  input_tiles: constant matrices of 6x6 and 6x6 unrolled for each column and row of a tile, vectors of 16 lanes
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
  step  output_tiles: constant matrices of 4x6 and 4x6 unrolled for each column and row of a tile, vectors of 16 lanes
  step  input_tiles, products, output_tiles: threads share the strips
  step  binary: collapse_axes i2, i3 -> m
  step  binary: split i1 by 16 -> i1_0, i1_1
  step  binary: split m by 8 -> m_0, m_1
  step  binary: reorder i1_0, m_0, i1_1, m_1
  step  binary: parallel m_0
  step  binary: vectorize m_1
  stage pad: elementwise
  stage input_tiles: winograd transform
  stage products: gemm
  stage output_tiles: winograd transform
  stage binary: elementwise
