# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((1, 3, 2, 4), dtype="float32"), p1: R.Tensor((1, 5, 2, 4), dtype="float32"), p2: R.Tensor((1, 5, 2, 4), dtype="float32"), p3: R.Tensor((1, 2, 3, 5), dtype="float32")) -> R.Tuple(R.Tensor((1, 3, 2, 4), dtype="float32"), R.Tensor((1, 3, 2, 4), dtype="float32")):
        gv: R.Tensor((1, 2, 3, 4), dtype="float32") = R.permute_dims(p0, axes=[0, 2, 1, 3])
        gv1: R.Tensor((1, 2, 4, 5), dtype="float32") = R.permute_dims(p1, axes=[0, 2, 3, 1])
        gv2: R.Tensor((1, 2, 5, 4), dtype="float32") = R.permute_dims(p2, axes=[0, 2, 1, 3])
        gv3: R.Tensor((1, 2, 3, 5), dtype="float32") = R.matmul(gv, gv1, out_dtype=None)
        gv4: R.Tensor((1, 2, 3, 5), dtype="float32") = R.multiply(gv3, R.const(0.5, "float32"))
        gv5: R.Tensor((1, 2, 3, 5), dtype="float32") = R.nn.softmax(gv4, axis=3)
        gv6: R.Tensor((1, 2, 3, 4), dtype="float32") = R.matmul(gv5, gv2, out_dtype=None)
        lv: R.Tensor((1, 3, 2, 4), dtype="float32") = R.permute_dims(gv6, axes=[0, 2, 1, 3])
        gv7: R.Tensor((1, 2, 3, 4), dtype="float32") = R.permute_dims(p0, axes=[0, 2, 1, 3])
        gv8: R.Tensor((1, 2, 4, 5), dtype="float32") = R.permute_dims(p1, axes=[0, 2, 3, 1])
        gv9: R.Tensor((1, 2, 5, 4), dtype="float32") = R.permute_dims(p2, axes=[0, 2, 1, 3])
        gv10: R.Tensor((1, 2, 3, 5), dtype="float32") = R.matmul(gv7, gv8, out_dtype=None)
        gv11: R.Tensor((1, 2, 3, 5), dtype="float32") = R.multiply(gv10, R.const(0.30000001192092896, "float32"))
        gv12: R.Tensor((1, 2, 3, 5), dtype="float32") = R.add(gv11, p3)
        gv13: R.Tensor((1, 2, 3, 5), dtype="float32") = R.nn.softmax(gv12, axis=3)
        gv14: R.Tensor((1, 2, 3, 4), dtype="float32") = R.matmul(gv13, gv9, out_dtype=None)
        lv1: R.Tensor((1, 3, 2, 4), dtype="float32") = R.permute_dims(gv14, axes=[0, 2, 1, 3])
        gv_15: R.Tuple(R.Tensor((1, 3, 2, 4), dtype="float32"), R.Tensor((1, 3, 2, 4), dtype="float32")) = (lv, lv1)
        return (lv, lv1)
