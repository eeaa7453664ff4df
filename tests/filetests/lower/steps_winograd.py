# after: steps
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 16, 16, 14), dtype="float32")) -> R.Tensor((1, 32, 16, 14), dtype="float32"):
        u: R.Tensor((32, 16, 1, 1), dtype="float32") = R.zeros(R.shape([32, 16, 1, 1]), dtype="float32")
        v: R.Tensor((32, 32, 3, 3), dtype="float32") = R.zeros(R.shape([32, 32, 3, 3]), dtype="float32")
        a: R.Tensor((1, 32, 16, 14), dtype="float32") = R.nn.conv2d(x, u)
        b: R.Tensor((1, 32, 16, 14), dtype="float32") = R.nn.conv2d(a, v, padding=[1, 1, 1, 1])
        c: R.Tensor((1, 32, 16, 14), dtype="float32") = R.nn.relu(b)
        return c
# ----
conv
  step  conv: v_i1 taken apart by 16
  step  bias: v_i1 taken apart by 16
  step  conv: tile of 4 rows by 2 vectors of 8 lanes, depth over v_k0; outer loops over (co), columns inside; no threads
  stage conv: gemm
  stage bias: epilogue of gemm
fused_conv_max
  step  pad: v_i1 taken apart by 16
  step  input_tiles: v_i5 taken apart by 16
  step  output_tiles: v_i1 taken apart by 16
  step  bias: v_i1 taken apart by 16
  step  pad: split ci by 8 -> ci_0, ci_1
  step  pad: vectorize ci_1
  step  input_tiles: tables of 6x6 and 6x6 unrolled, vectors of 16 lanes
  step  products: tile of 4 rows by 2 vectors of 8 lanes, depth over v_k0; outer loops over (m), columns inside; threads share the outermost loop
  step  output_tiles: tables of 4x6 and 4x6 unrolled, vectors of 16 lanes
  step  bias: merge_axes i2, i3 -> m
  step  bias: split m by 8 -> m_0, m_1
  step  bias: vectorize m_1
  step  binary: merge_axes i2, i3 -> m
  step  binary: merge_axes i1, m -> m
  step  binary: split m by 8 -> m_0, m_1
  step  binary: vectorize m_1
  stage pad: map
  stage input_tiles: tables
  stage products: gemm
  stage output_tiles: tables
  stage bias: map
  stage binary: map
