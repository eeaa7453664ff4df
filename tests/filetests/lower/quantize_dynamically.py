# after: eliminate_dead_code
# precision: int8
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3, 64), dtype="float32")) -> R.Tuple(R.Tensor((3, 16), dtype="float32"), R.Tensor((3, 16), dtype="float32")):
        w: R.Tensor((64, 16), dtype="float32") = R.ones((64, 16), dtype="float32")
        y: R.Tensor((3, 16), dtype="float32") = R.matmul(x, w)
        n: R.Tensor((64, 16), dtype="float32") = R.negative(w)
        z: R.Tensor((3, 16), dtype="float32") = R.matmul(x, n)
        return (y, z)
# ----
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3, 64), dtype="float32")) -> R.Tuple(R.Tensor((3, 16), dtype="float32"), R.Tensor((3, 16), dtype="float32")):
        gv: R.Tensor((3, 64), dtype="float32") = R.abs(x)
        gv1: R.Tensor((3, 1), dtype="float32") = R.max(gv, axis=[1], keepdims=True)
        gv2: R.Tensor((3, 1), dtype="float32") = R.maximum(gv1, R.const(1.0000000031710769e-30, "float32"))
        gv3: R.Tensor((3, 1), dtype="float32") = R.divide(R.const(127.0, "float32"), gv2)
        gv4: R.Tensor((3, 64), dtype="float32") = R.multiply(x, gv3)
        gv5: R.Tensor((3, 64), dtype="float32") = R.round(gv4)
        gv6: R.Tensor((3, 64), dtype="float32") = R.add(gv5, R.const(128.0, "float32"))
        gv7: R.Tensor((3, 64), dtype="uint8") = R.astype(gv6, dtype="uint8")
        gv8: R.Tensor((3, 16), dtype="int32") = R.matmul(gv7, metadata["ir.GenericConst"][0], out_dtype="int32")
        gv9: R.Tensor((3, 16), dtype="int32") = R.subtract(gv8, R.const([1040384, 1040384, 1040384, 1040384, 1040384, 1040384, 1040384, 1040384, 1040384, 1040384, 1040384, 1040384, 1040384, 1040384, 1040384, 1040384], "int32"))
        gv10: R.Tensor((3, 16), dtype="float32") = R.astype(gv9, dtype="float32")
        gv11: R.Tensor((3, 16), dtype="float32") = R.multiply(gv2, R.const([6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05], "float32"))
        y: R.Tensor((3, 16), dtype="float32") = R.multiply(gv10, gv11)
        gv12: R.Tensor((3, 16), dtype="int32") = R.matmul(gv7, metadata["ir.GenericConst"][1], out_dtype="int32")
        gv13: R.Tensor((3, 16), dtype="int32") = R.subtract(gv12, R.const([-1040384, -1040384, -1040384, -1040384, -1040384, -1040384, -1040384, -1040384, -1040384, -1040384, -1040384, -1040384, -1040384, -1040384, -1040384, -1040384], "int32"))
        gv14: R.Tensor((3, 16), dtype="float32") = R.astype(gv13, dtype="float32")
        gv15: R.Tensor((3, 16), dtype="float32") = R.multiply(gv2, R.const([6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05, 6.2000122852623463e-05], "float32"))
        z: R.Tensor((3, 16), dtype="float32") = R.multiply(gv14, gv15)
        return (y, z)

# Metadata omitted: 2 constants, 2048 bytes.
# metadata["ir.GenericConst"][0]: int8[64, 16], 1024 bytes
# metadata["ir.GenericConst"][1]: int8[64, 16], 1024 bytes
