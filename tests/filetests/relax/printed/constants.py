# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((3, 4), dtype="float32")) -> R.Tuple(R.Tensor((3, 6), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 2), dtype="float32")):
        lv: R.Tensor((3, 6), dtype="float32") = R.matmul(p0, metadata["ir.GenericConst"][0], out_dtype=None)
        lv1: R.Tensor((3, 4), dtype="float32") = R.add(p0, R.const([3.3919999599456787, -0.29499998688697815, 2.5490000247955322, 0.57700002193450928], "float32"))
        lv2: R.Tensor((3, 4), dtype="float32") = R.add(p0, R.const("inf", "float32"))
        lv3: R.Tensor((3, 4), dtype="float32") = R.where(R.const(True, "bool"), p0, p0)
        lv4: R.Tensor((3, 2), dtype="float32") = R.take(p0, R.const([1, 0], "int32"), axis=1, mode="fast")
        gv: R.Tuple(R.Tensor((3, 6), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 2), dtype="float32")) = (lv, lv1, lv2, lv3, lv4)
        return (lv, lv1, lv2, lv3, lv4)

# Metadata omitted: 1 constants, 96 bytes.
# metadata["ir.GenericConst"][0]: float32[4, 6], 96 bytes
