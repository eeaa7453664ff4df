# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((4, 6), dtype="float32"), p1: R.Tensor((2, 8, 3), dtype="float32"), p2: R.Tensor((10, 3), dtype="float32")) -> R.Tuple(R.Tensor((6, 4), dtype="float32"), R.Tensor((24,), dtype="float32"), R.Tensor((2, 2, 3, 4), dtype="float32"), R.Tensor((3, 3, 4), dtype="float32"), R.Tensor((3, 8), dtype="float32"), R.Tensor((4, 6, 2), dtype="float32")):
        gv: R.Tensor((4, 6), dtype="float32") = R.reshape(p0, R.shape([4, 6]))
        gv1: R.Tensor((6, 4), dtype="float32") = R.permute_dims(gv, axes=[1, 0])
        lv: R.Tensor((6, 4), dtype="float32") = R.reshape(gv1, R.shape([6, 4]))
        gv2: R.Tensor((4, 6), dtype="float32") = R.reshape(p0, R.shape([4, 6]))
        gv3: R.Tensor((4, 6), dtype="float32") = R.permute_dims(gv2, axes=[0, 1])
        lv1: R.Tensor((24,), dtype="float32") = R.reshape(gv3, R.shape([24]))
        gv4: R.Tensor((2, 2, 4, 3), dtype="float32") = R.reshape(p1, R.shape([2, 2, 4, 3]))
        gv5: R.Tensor((2, 2, 3, 4), dtype="float32") = R.permute_dims(gv4, axes=[0, 1, 3, 2])
        lv2: R.Tensor((2, 2, 3, 4), dtype="float32") = R.reshape(gv5, R.shape([2, 2, 3, 4]))
        gv6: R.Tensor((12, 3), dtype="float32") = R.nn.pad(p2, pad_width=[0, 2, 0, 0], pad_value=2.0, pad_mode="constant")
        gv7: R.Tensor((3, 4, 3), dtype="float32") = R.reshape(gv6, R.shape([3, 4, 3]))
        gv8: R.Tensor((3, 3, 4), dtype="float32") = R.permute_dims(gv7, axes=[0, 2, 1])
        lv3: R.Tensor((3, 3, 4), dtype="float32") = R.reshape(gv8, R.shape([3, 3, 4]))
        gv9: R.Tensor((4, 6), dtype="float32") = R.reshape(p0, R.shape([4, 6]))
        gv10: R.Tensor((4, 6), dtype="float32") = R.permute_dims(gv9, axes=[0, 1])
        gv11: R.Tensor((24,), dtype="float32") = R.reshape(gv10, R.shape([24]))
        gv12: R.Tensor((3, 8), dtype="float32") = R.reshape(gv11, R.shape([3, 8]))
        gv13: R.Tensor((3, 8), dtype="float32") = R.permute_dims(gv12, axes=[0, 1])
        lv4: R.Tensor((3, 8), dtype="float32") = R.reshape(gv13, R.shape([3, 8]))
        gv14: R.Tensor((2, 4, 2, 3), dtype="float32") = R.reshape(p1, R.shape([2, 4, 2, 3]))
        gv15: R.Tensor((4, 2, 3, 2), dtype="float32") = R.permute_dims(gv14, axes=[1, 0, 3, 2])
        lv5: R.Tensor((4, 6, 2), dtype="float32") = R.reshape(gv15, R.shape([4, 6, 2]))
        gv_16: R.Tuple(R.Tensor((6, 4), dtype="float32"), R.Tensor((24,), dtype="float32"), R.Tensor((2, 2, 3, 4), dtype="float32"), R.Tensor((3, 3, 4), dtype="float32"), R.Tensor((3, 8), dtype="float32"), R.Tensor((4, 6, 2), dtype="float32")) = (lv, lv1, lv2, lv3, lv4, lv5)
        return (lv, lv1, lv2, lv3, lv4, lv5)
