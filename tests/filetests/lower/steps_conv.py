# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 24, 20, 20), dtype="float32"), w: R.Tensor((32, 24, 3, 3), dtype="float32")) -> R.Tensor((1, 32, 10, 10), dtype="float32"):
        a: R.Tensor((1, 32, 10, 10), dtype="float32") = R.nn.conv2d(x, w, strides=[2, 2], padding=[1, 1, 1, 1])
        b: R.Tensor((1, 32, 10, 10), dtype="float32") = R.nn.relu(a)
        return b
# ----
fused_conv_max
  step  conv: columns copied into phases
  step  pad: computed where it is read
  step  phases: partition p at 8 -> p, p_tail
  step  phases: vectorize p_tail
  step  phases: vectorize p
  step  conv: tile of 4 rows by 2 vectors of 8 lanes, depth over v_k0, v_k1, v_k2; outer loops over (v_i2), columns inside; threads share the outermost loop
  stage phases: map
  stage conv: gemm
  stage binary: epilogue of gemm
