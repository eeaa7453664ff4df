# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((3, 4), dtype="float32"), p1: R.Tensor((3,), dtype="int64"), p2: R.Tensor((1, 4), dtype="int64"), p3: R.Tensor((1, 4), dtype="float32"), p4: R.Tensor((2, 2), dtype="int64"), p5: R.Tensor((2,), dtype="float32")) -> R.Tuple(R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 3), dtype="float32"), R.Tensor((3, 3), dtype="float32"), R.Tensor((1, 4), dtype="float32"), R.Tensor((2,), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((3, 2), dtype="int32")), R.Tensor((3, 2), dtype="int64"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="int32")):
        with R.dataflow():
            lv: R.Tensor((3, 4), dtype="float32") = R.take(p0, p1, axis=0, mode="fast")
            lv1: R.Tensor((3, 3), dtype="float32") = R.take(p0, p1, axis=1, mode="clip")
            lv2: R.Tensor((3,), dtype="int64") = R.subtract(p1, R.const(2, "int64"))
            lv3: R.Tensor((3, 3), dtype="float32") = R.take(p0, lv2, axis=1, mode="wrap")
            lv4: R.Tensor((1, 4), dtype="float32") = R.gather_elements(p0, p2, axis=0)
            lv5: R.Tensor((2,), dtype="float32") = R.gather_nd(p0, p4, batch_dims=0)
            lv6: R.Tensor((3, 4), dtype="float32") = R.scatter_elements(p0, p2, p3, axis=0, reduction="update")
            lv7: R.Tensor((3, 4), dtype="float32") = R.scatter_elements(p0, p2, p3, axis=0, reduction="add")
            lv8: R.Tensor((3, 4), dtype="float32") = R.scatter_nd(p0, p4, p5, reduction="update")
            lv9: R.Tensor((3, 4), dtype="float32") = R.scatter_nd(p0, p4, p5, reduction="add")
            lv10: R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((3, 2), dtype="int32")) = R.topk(p0, k=2, axis=1, ret_type="both", largest=True, dtype="int32")
            lv11: R.Tensor((3, 2), dtype="int64") = R.topk(p0, k=2, axis=1, ret_type="indices", largest=False, dtype="int64")
            lv12: R.Tensor((3, 4), dtype="float32") = R.topk(p0, k=3, axis=0, ret_type="values", largest=True, dtype="int32")
            lv13: R.Tensor((3, 4), dtype="float32") = R.sort(p0, axis=1, descending=False)
            lv14: R.Tensor((3, 4), dtype="int32") = R.argsort(p0, axis=0, descending=True, dtype="int32")
            gv: R.Tuple(R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 3), dtype="float32"), R.Tensor((3, 3), dtype="float32"), R.Tensor((1, 4), dtype="float32"), R.Tensor((2,), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((3, 2), dtype="int32")), R.Tensor((3, 2), dtype="int64"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="int32")) = lv, lv1, lv3, lv4, lv5, lv6, lv7, lv8, lv9, lv10, lv11, lv12, lv13, lv14
            R.output(gv)
        return gv
# case
# in float32 (3,4) -4.71999979 0.878000021 -1.08000004 0.862999976 -0.984000027 0.728999972 3.12899995 0.708000004 0.866999984 0.745999992 -1.50100005 1.08599997
# in int64 (3) 2 0 1
# in int64 (1,4) 0 2 1 1
# in float32 (1,4) 1.50699997 -0.0860000029 -1.05900002 2.91199994
# in int64 (2,2) 1 2 0 3
# in float32 (2) 1.977 2.53900003
# out float32 (3,4) 0.866999984 0.745999992 -1.50100005 1.08599997 -4.71999979 0.878000021 -1.08000004 0.862999976 -0.984000027 0.728999972 3.12899995 0.708000004
# out float32 (3,3) -1.08000004 -4.71999979 0.878000021 3.12899995 -0.984000027 0.728999972 -1.50100005 0.866999984 0.745999992
# out float32 (3,3) -4.71999979 -1.08000004 0.862999976 -0.984000027 3.12899995 0.708000004 0.866999984 -1.50100005 1.08599997
# out float32 (1,4) -4.71999979 0.745999992 3.12899995 0.708000004
# out float32 (2) 3.12899995 0.862999976
# out float32 (3,4) 1.50699997 0.878000021 -1.08000004 0.862999976 -0.984000027 0.728999972 -1.05900002 2.91199994 0.866999984 -0.0860000029 -1.50100005 1.08599997
# out float32 (3,4) -3.21299982 0.878000021 -1.08000004 0.862999976 -0.984000027 0.728999972 2.06999993 3.61999989 0.866999984 0.659999967 -1.50100005 1.08599997
# out float32 (3,4) -4.71999979 0.878000021 -1.08000004 2.53900003 -0.984000027 0.728999972 1.977 0.708000004 0.866999984 0.745999992 -1.50100005 1.08599997
# out float32 (3,4) -4.71999979 0.878000021 -1.08000004 3.40199995 -0.984000027 0.728999972 5.10599995 0.708000004 0.866999984 0.745999992 -1.50100005 1.08599997
# out float32 (3,2) 0.878000021 0.862999976 3.12899995 0.728999972 1.08599997 0.866999984
# out int32 (3,2) 1 3 2 1 3 0
# out int64 (3,2) 0 2 0 3 2 1
# out float32 (3,4) 0.866999984 0.878000021 3.12899995 1.08599997 -0.984000027 0.745999992 -1.08000004 0.862999976 -4.71999979 0.728999972 -1.50100005 0.708000004
# out float32 (3,4) -4.71999979 -1.08000004 0.862999976 0.878000021 -0.984000027 0.708000004 0.728999972 3.12899995 -1.50100005 0.745999992 0.866999984 1.08599997
# out int32 (3,4) 2 0 1 2 1 2 0 0 0 1 2 1
