# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((2, 3, 4), dtype="float32"), p1: R.Tensor((3, 4), dtype="float32"), p2: R.Tensor((4,), dtype="float32")) -> R.Tuple(R.Tensor((4, 3, 2), dtype="float32"), R.Tensor((3, 2, 4), dtype="float32"), R.Tensor((4, 6), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((2, 3, 8), dtype="float32"), R.Tensor((3, 2, 4), dtype="float32"), R.Tuple(R.Tensor((2, 3, 2), dtype="float32"), R.Tensor((2, 3, 2), dtype="float32")), R.Tuple(R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 2, 4), dtype="float32")), R.Tensor((1, 3, 4, 1), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((24,), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((2, 3, 12), dtype="float32"), R.Tensor((6, 4), dtype="float32"), R.Tensor((36,), dtype="float32"), R.Tensor((2, 3, 2), dtype="float32"), R.Tensor((2, 3, 2), dtype="float32"), R.Tensor((2, 3, 2), dtype="float32"), R.Tensor((2, 4), dtype="float32"), R.Tensor((4, 7), dtype="float32"), R.Tensor((3, 6), dtype="float32"), R.Tensor((5, 6), dtype="float32"), R.Tensor((5, 6), dtype="float32"), R.Tensor((2, 2), dtype="float32"), R.Tensor((2,), dtype="int64"), R.Tensor((1, 2), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((3, 4), dtype="int32"), R.Tensor((3,), dtype="int64"), R.Tensor((5,), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 3), dtype="float32"), R.Tensor((2, 3), dtype="float32"), R.Tensor((3, 3), dtype="float32")):
        lv: R.Tensor((4, 3, 2), dtype="float32") = R.permute_dims(p0, axes=[2, 1, 0])
        lv1: R.Tensor((3, 2, 4), dtype="float32") = R.permute_dims(p0, axes=[1, 0, 2])
        lv2: R.Tensor((4, 6), dtype="float32") = R.reshape(p0, R.shape([4, 6]))
        lv3: R.Tensor((3, 4), dtype="float32") = R.broadcast_to(p2, R.shape([3, 4]))
        lv4: R.Tensor((2, 3, 8), dtype="float32") = R.concat((p0, p0), axis=2)
        gv: R.Tensor((3, 1, 4), dtype="float32") = R.reshape(p1, R.shape([3, 1, 4]))
        gv1: R.Tensor((3, 1, 4), dtype="float32") = R.reshape(p1, R.shape([3, 1, 4]))
        lv5: R.Tensor((3, 2, 4), dtype="float32") = R.concat((gv, gv1), axis=1)
        gv2: R.Tensor((2, 3, 2), dtype="float32") = R.strided_slice(p0, (0, 1, 2), (0, 0, 0), (2, 3, 2), (1, 1, 1), assume_inbound=True)
        gv3: R.Tensor((2, 3, 2), dtype="float32") = R.strided_slice(p0, (0, 1, 2), (0, 0, 2), (2, 3, 4), (1, 1, 1), assume_inbound=True)
        gv4: R.Tensor((2, 1, 4), dtype="float32") = R.strided_slice(p0, (0, 1, 2), (0, 0, 0), (2, 1, 4), (1, 1, 1), assume_inbound=True)
        gv5: R.Tensor((2, 2, 4), dtype="float32") = R.strided_slice(p0, (0, 1, 2), (0, 1, 0), (2, 3, 4), (1, 1, 1), assume_inbound=True)
        lv8: R.Tensor((1, 3, 4, 1), dtype="float32") = R.reshape(p1, R.shape([1, 3, 4, 1]))
        lv9: R.Tensor((3, 1, 4), dtype="float32") = R.reshape(p1, R.shape([3, 1, 4]))
        lv10: R.Tensor((3, 4), dtype="float32") = R.reshape(lv9, R.shape([3, 4]))
        lv11: R.Tensor((24,), dtype="float32") = R.reshape(p0, R.shape([24]))
        lv12: R.Tensor((3, 4), dtype="float32") = R.reflex.slice(p1, R.shape([0, 3]), R.shape([3, 4]), strides=[1, -1])
        gv6: R.Tensor((1, 3, 4), dtype="float32") = R.reshape(p1, R.shape([1, 3, 4]))
        gv7: R.Tensor((1, 1, 3, 4), dtype="float32") = R.reshape(gv6, R.shape([1, 1, 3, 4]))
        gv8: R.Tensor((2, 1, 3, 4), dtype="float32") = R.broadcast_to(gv7, R.shape([2, 1, 3, 4]))
        gv9: R.Tensor((2, 3, 4), dtype="float32") = R.reshape(gv8, R.shape([2, 3, 4]))
        gv10: R.Tensor((2, 3, 1, 4), dtype="float32") = R.reshape(gv9, R.shape([2, 3, 1, 4]))
        gv11: R.Tensor((2, 3, 3, 4), dtype="float32") = R.broadcast_to(gv10, R.shape([2, 3, 3, 4]))
        lv13: R.Tensor((2, 3, 12), dtype="float32") = R.reshape(gv11, R.shape([2, 3, 12]))
        gv12: R.Tensor((3, 1, 4), dtype="float32") = R.reshape(p1, R.shape([3, 1, 4]))
        gv13: R.Tensor((3, 2, 4), dtype="float32") = R.broadcast_to(gv12, R.shape([3, 2, 4]))
        lv14: R.Tensor((6, 4), dtype="float32") = R.reshape(gv13, R.shape([6, 4]))
        gv14: R.Tensor((12,), dtype="float32") = R.reshape(p1, R.shape([12]))
        gv15: R.Tensor((12, 1), dtype="float32") = R.reshape(gv14, R.shape([12, 1]))
        gv16: R.Tensor((12, 3), dtype="float32") = R.broadcast_to(gv15, R.shape([12, 3]))
        lv15: R.Tensor((36,), dtype="float32") = R.reshape(gv16, R.shape([36]))
        lv16: R.Tensor((2, 3, 2), dtype="float32") = R.strided_slice(p0, (0, 1, 2), (0, 0, 1), (2, 3, 3), (1, 1, 1), assume_inbound=True)
        lv17: R.Tensor((2, 3, 2), dtype="float32") = R.reflex.slice(p0, R.shape([0, 0, 1]), R.shape([2, 3, 2]), strides=[1, 1, 2])
        lv18: R.Tensor((2, 3, 2), dtype="float32") = R.reflex.slice(p0, R.shape([0, 0, 3]), R.shape([2, 3, 2]), strides=[1, 1, -2])
        lv19: R.Tensor((2, 4), dtype="float32") = R.strided_slice(p1, (0, 1), (0, 0), (2, 4), (1, 1), assume_inbound=True)
        lv20: R.Tensor((4, 7), dtype="float32") = R.nn.pad(p1, pad_width=[1, 0, 2, 1], pad_value=0.0, pad_mode="constant")
        lv21: R.Tensor((3, 6), dtype="float32") = R.reflex.pad(p1, R.const(1.5, "float32"), before=R.shape([0, 1]), after=R.shape([0, 1]), mode="constant")
        lv22: R.Tensor((5, 6), dtype="float32") = R.nn.pad(p1, pad_width=[1, 1, 1, 1], pad_value=0.0, pad_mode="reflect")
        lv23: R.Tensor((5, 6), dtype="float32") = R.nn.pad(p1, pad_width=[1, 1, 2, 0], pad_value=0.0, pad_mode="replicate")
        lv24: R.Tensor((2, 2), dtype="float32") = R.broadcast_to(R.const(3.5, "float32"), R.shape([2, 2]))
        lv25: R.Tensor((2,), dtype="int64") = R.broadcast_to(R.const(0, "int64"), R.shape([2]))
        lv26: R.Tensor((1, 2), dtype="float32") = R.broadcast_to(R.const(1.0, "float32"), R.shape([1, 2]))
        lv27: R.Tensor((3, 4), dtype="float32") = R.broadcast_to(R.const(2.0, "float32"), R.shape([3, 4]))
        lv28: R.Tensor((2, 3, 4), dtype="float32") = R.broadcast_to(R.const(0.0, "float32"), R.shape([2, 3, 4]))
        lv29: R.Tensor((3, 4), dtype="int32") = R.broadcast_to(R.const(1, "int32"), R.shape([3, 4]))
        gv17: R.Tensor((3,), dtype="int64") = R.arange(0, 3, 1, dtype="int64")
        gv18: R.Tensor((3,), dtype="int64") = R.multiply(gv17, R.const(3, "int64"))
        gv19: R.Tensor((), dtype="int64") = R.reflex.dim_to_tensor(2)
        lv30: R.Tensor((3,), dtype="int64") = R.add(gv18, gv19)
        gv20: R.Tensor((5,), dtype="int64") = R.arange(0, 5, 1, dtype="int64")
        lv31: R.Tensor((5,), dtype="float32") = R.astype(gv20, dtype="float32")
        gv21: R.Tensor((3,), dtype="int64") = R.arange(0, 3, 1, dtype="int64")
        gv22: R.Tensor((3, 1), dtype="int64") = R.reshape(gv21, R.shape([3, 1]))
        gv23: R.Tensor((), dtype="int64") = R.reflex.dim_to_tensor(0)
        gv24: R.Tensor((3, 1), dtype="int64") = R.add(gv22, gv23)
        gv25: R.Tensor((4,), dtype="int64") = R.arange(0, 4, 1, dtype="int64")
        gv26: R.Tensor((3, 4), dtype="bool") = R.greater_equal(gv25, gv24)
        lv32: R.Tensor((3, 4), dtype="float32") = R.where(gv26, p1, R.const(0.0, "float32"))
        gv27: R.Tensor((3,), dtype="int64") = R.arange(0, 3, 1, dtype="int64")
        gv28: R.Tensor((3, 1), dtype="int64") = R.reshape(gv27, R.shape([3, 1]))
        gv29: R.Tensor((), dtype="int64") = R.reflex.dim_to_tensor(1)
        gv30: R.Tensor((3, 1), dtype="int64") = R.add(gv28, gv29)
        gv31: R.Tensor((4,), dtype="int64") = R.arange(0, 4, 1, dtype="int64")
        gv32: R.Tensor((3, 4), dtype="bool") = R.less_equal(gv31, gv30)
        lv33: R.Tensor((3, 4), dtype="float32") = R.where(gv32, p1, R.const(0.0, "float32"))
        lv34: R.Tensor((4, 3), dtype="float32") = R.permute_dims(p1, axes=[1, 0])
        lv35: R.Tensor((3, 3), dtype="float32") = R.matmul(p1, lv34, out_dtype=None)
        lv36: R.Tensor((2, 3), dtype="float32") = R.matmul(p0, p2, out_dtype=None)
        lv37: R.Tensor((4, 3), dtype="float32") = R.permute_dims(p1, axes=[1, 0])
        lv38: R.Tensor((3, 3), dtype="float32") = R.matmul(p1, lv37, out_dtype=None)
        gv33: R.Tuple(R.Tensor((2, 3, 2), dtype="float32"), R.Tensor((2, 3, 2), dtype="float32")) = (gv2, gv3)
        gv34: R.Tuple(R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 2, 4), dtype="float32")) = (gv4, gv5)
        gv_35: R.Tuple(R.Tensor((4, 3, 2), dtype="float32"), R.Tensor((3, 2, 4), dtype="float32"), R.Tensor((4, 6), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((2, 3, 8), dtype="float32"), R.Tensor((3, 2, 4), dtype="float32"), R.Tuple(R.Tensor((2, 3, 2), dtype="float32"), R.Tensor((2, 3, 2), dtype="float32")), R.Tuple(R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 2, 4), dtype="float32")), R.Tensor((1, 3, 4, 1), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((24,), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((2, 3, 12), dtype="float32"), R.Tensor((6, 4), dtype="float32"), R.Tensor((36,), dtype="float32"), R.Tensor((2, 3, 2), dtype="float32"), R.Tensor((2, 3, 2), dtype="float32"), R.Tensor((2, 3, 2), dtype="float32"), R.Tensor((2, 4), dtype="float32"), R.Tensor((4, 7), dtype="float32"), R.Tensor((3, 6), dtype="float32"), R.Tensor((5, 6), dtype="float32"), R.Tensor((5, 6), dtype="float32"), R.Tensor((2, 2), dtype="float32"), R.Tensor((2,), dtype="int64"), R.Tensor((1, 2), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((3, 4), dtype="int32"), R.Tensor((3,), dtype="int64"), R.Tensor((5,), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 3), dtype="float32"), R.Tensor((2, 3), dtype="float32"), R.Tensor((3, 3), dtype="float32")) = (lv, lv1, lv2, lv3, lv4, lv5, gv33, gv34, lv8, lv10, lv11, lv12, lv13, lv14, lv15, lv16, lv17, lv18, lv19, lv20, lv21, lv22, lv23, lv24, lv25, lv26, lv27, lv28, lv29, lv30, lv31, lv32, lv33, lv35, lv36, lv38)
        gv36: R.Tensor((4, 3, 2), dtype="float32") = gv_35[0]
        gv37: R.Tensor((3, 2, 4), dtype="float32") = gv_35[1]
        gv38: R.Tensor((4, 6), dtype="float32") = gv_35[2]
        gv39: R.Tensor((3, 4), dtype="float32") = gv_35[3]
        gv40: R.Tensor((2, 3, 8), dtype="float32") = gv_35[4]
        gv41: R.Tensor((3, 2, 4), dtype="float32") = gv_35[5]
        gv42: R.Tuple(R.Tensor((2, 3, 2), dtype="float32"), R.Tensor((2, 3, 2), dtype="float32")) = gv_35[6]
        gv43: R.Tuple(R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 2, 4), dtype="float32")) = gv_35[7]
        gv44: R.Tensor((1, 3, 4, 1), dtype="float32") = gv_35[8]
        gv45: R.Tensor((3, 4), dtype="float32") = gv_35[9]
        gv46: R.Tensor((24,), dtype="float32") = gv_35[10]
        gv47: R.Tensor((3, 4), dtype="float32") = gv_35[11]
        gv48: R.Tensor((2, 3, 12), dtype="float32") = gv_35[12]
        gv49: R.Tensor((6, 4), dtype="float32") = gv_35[13]
        gv50: R.Tensor((36,), dtype="float32") = gv_35[14]
        gv51: R.Tensor((2, 3, 2), dtype="float32") = gv_35[15]
        gv52: R.Tensor((2, 3, 2), dtype="float32") = gv_35[16]
        gv53: R.Tensor((2, 3, 2), dtype="float32") = gv_35[17]
        gv54: R.Tensor((2, 4), dtype="float32") = gv_35[18]
        gv55: R.Tensor((4, 7), dtype="float32") = gv_35[19]
        gv56: R.Tensor((3, 6), dtype="float32") = gv_35[20]
        gv57: R.Tensor((5, 6), dtype="float32") = gv_35[21]
        gv58: R.Tensor((5, 6), dtype="float32") = gv_35[22]
        gv59: R.Tensor((2, 2), dtype="float32") = gv_35[23]
        gv60: R.Tensor((2,), dtype="int64") = gv_35[24]
        gv61: R.Tensor((1, 2), dtype="float32") = gv_35[25]
        gv62: R.Tensor((3, 4), dtype="float32") = gv_35[26]
        gv63: R.Tensor((2, 3, 4), dtype="float32") = gv_35[27]
        gv64: R.Tensor((3, 4), dtype="int32") = gv_35[28]
        gv65: R.Tensor((3,), dtype="int64") = gv_35[29]
        gv66: R.Tensor((5,), dtype="float32") = gv_35[30]
        gv67: R.Tensor((3, 4), dtype="float32") = gv_35[31]
        gv68: R.Tensor((3, 4), dtype="float32") = gv_35[32]
        gv69: R.Tensor((3, 3), dtype="float32") = gv_35[33]
        gv70: R.Tensor((2, 3), dtype="float32") = gv_35[34]
        gv71: R.Tensor((3, 3), dtype="float32") = gv_35[35]
        return (gv36, gv37, gv38, gv39, gv40, gv41, gv42, gv43, gv44, gv45, gv46, gv47, gv48, gv49, gv50, gv51, gv52, gv53, gv54, gv55, gv56, gv57, gv58, gv59, gv60, gv61, gv62, gv63, gv64, gv65, gv66, gv67, gv68, gv69, gv70, gv71)
