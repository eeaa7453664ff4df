# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

k = TypeVar("k")
n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((n, 4), dtype="float32"), p1: R.Tensor((k, 4), dtype="float32")) -> R.Tuple(R.Tensor(("n + k", 4), dtype="float32"), R.Tensor(("n * 4",), dtype="float32"), R.Tensor(("n * 2", 2), dtype="float32"), R.Tensor(("n - T.min(1, n)", 4), dtype="float32"), R.Tensor(("T.max(n - 1, 0)", 4), dtype="float32"), R.Tensor((n, k, 4), dtype="float32"), R.Tensor((n, 2), dtype="float32"), R.Tensor((n,), dtype="int64"), R.Tensor((n, k), dtype="float32"), R.Tensor((n, 4), dtype="float32"), R.Tensor((4,), dtype="float32"), R.Tensor((2,), dtype="int64"), R.Tensor(("n + 2", 4), dtype="float32"), R.Tensor((n, 4), dtype="int32")):
        lv: R.Tensor((n + k, 4), dtype="float32") = R.concat((p0, p1), axis=0)
        lv1: R.Tensor((n * 4,), dtype="float32") = R.reshape(p0, R.shape([n * 4]))
        lv2: R.Tensor((n * 2, 2), dtype="float32") = R.reshape(p0, R.shape([n * 2, 2]))
        lv3: R.Tensor((n - T.min(1, n), 4), dtype="float32") = R.strided_slice(p0, (0, 1), (T.min(1, n), 0), (n, 4), (1, 1), assume_inbound=True)
        lv4: R.Tensor((T.max(n - 1, 0), 4), dtype="float32") = R.strided_slice(p0, (0, 1), (0, 0), (T.max(n - 1, 0), 4), (1, 1), assume_inbound=True)
        lv5: R.Tensor((1, k, 4), dtype="float32") = R.reshape(p1, R.shape([1, k, 4]))
        lv6: R.Tensor((n, k, 4), dtype="float32") = R.broadcast_to(lv5, R.shape([n, k, 4]))
        lv7: R.Tensor((n, 2), dtype="float32") = R.broadcast_to(R.const(1.5, "float32"), R.shape([n, 2]))
        lv8: R.Tensor((n,), dtype="int64") = R.arange(0, n, 1, dtype="int64")
        lv9: R.Tensor((4, k), dtype="float32") = R.permute_dims(p1, axes=[1, 0])
        lv10: R.Tensor((n, k), dtype="float32") = R.matmul(p0, lv9, out_dtype=None)
        lv11: R.Tensor((n, 4), dtype="float32") = R.nn.softmax(p0, axis=0)
        lv12: R.Tensor((4,), dtype="float32") = R.mean(p0, axis=[0], keepdims=False)
        lv13: R.Tensor((2,), dtype="int64") = R.shape_to_tensor(R.shape([n, k * 2]))
        lv14: R.Tensor((n + 2, 4), dtype="float32") = R.nn.pad(p0, pad_width=[1, 1, 0, 0], pad_value=0.0, pad_mode="constant")
        lv15: R.Tensor((n, 4), dtype="float32") = R.cumsum(p0, axis=0, dtype=None, exclusive=False)
        lv16: R.Tensor((n, 4), dtype="int32") = R.astype(lv15, dtype="int32")
        gv: R.Tuple(R.Tensor((n + k, 4), dtype="float32"), R.Tensor((n * 4,), dtype="float32"), R.Tensor((n * 2, 2), dtype="float32"), R.Tensor((n - T.min(1, n), 4), dtype="float32"), R.Tensor((T.max(n - 1, 0), 4), dtype="float32"), R.Tensor((n, k, 4), dtype="float32"), R.Tensor((n, 2), dtype="float32"), R.Tensor((n,), dtype="int64"), R.Tensor((n, k), dtype="float32"), R.Tensor((n, 4), dtype="float32"), R.Tensor((4,), dtype="float32"), R.Tensor((2,), dtype="int64"), R.Tensor((n + 2, 4), dtype="float32"), R.Tensor((n, 4), dtype="int32")) = (lv, lv1, lv2, lv3, lv4, lv6, lv7, lv8, lv10, lv11, lv12, lv13, lv14, lv16)
        return (lv, lv1, lv2, lv3, lv4, lv6, lv7, lv8, lv10, lv11, lv12, lv13, lv14, lv16)
