# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((2, 3, 4), dtype="float32"), p1: R.Tensor((3, 4), dtype="float32"), p2: R.Tensor((2,), dtype="int64"), p3: R.Tensor((2,), dtype="int64"), p4: R.Tensor((2,), dtype="float32"), p5: R.Tensor((6,), dtype="float32"), p6: R.Tensor((6, 4), dtype="float32"), p7: R.Tensor((3,), dtype="int64"), p8: R.Tensor((3,), dtype="float32"), p9: R.Tensor((2, 1), dtype="int64")) -> R.Tuple(R.Tensor((2,), dtype="float32"), R.Tensor((2, 4), dtype="float32"), R.Tensor((2, 2), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((6, 4), dtype="float32"), R.Tensor((6, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((3, 4), dtype="int64"), R.Tensor((6,), dtype="int32"), R.Tuple(R.Tensor((2, 4), dtype="float32"), R.Tensor((2, 4), dtype="int64")), R.Tuple(R.Tensor((2, 3, 1), dtype="float32"), R.Tensor((2, 3, 1), dtype="int64")), R.Tensor((), dtype="float32"), R.Tuple(R.Tensor((3, 2, 6), dtype="float32"), R.Tensor((3, 2, 6), dtype="float32"), R.Tensor((3, 2, 6), dtype="float32")), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 3), dtype="float32"), R.Tensor((4, 3), dtype="int64"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((2, 4), dtype="float32")):
        with R.dataflow():
            lv: R.Tensor((2,), dtype="float32") = R.index_tensor(p1, (p2, p3))
            lv1: R.Tensor((2, 4), dtype="float32") = R.index_tensor(p1, (p2,))
            lv2: R.Tensor((2, 2), dtype="float32") = R.index_tensor(p0, (p9, p2, p3))
            lv3: R.Tensor((3, 4), dtype="float32") = R.index_put(p1, (p2, p3), p4, accumulate=False)
            lv4: R.Tensor((3, 4), dtype="float32") = R.index_put(p1, (p2, p2), p4, accumulate=True)
            lv5: R.Tensor((6, 4), dtype="float32") = R.slice_scatter(p6, p1, 0, 6, 2, axis=0)
            lv6: R.Tensor((6, 4), dtype="float32") = R.slice_scatter(p6, p1, 1, 4, 1, axis=0)
            lv7: R.Tensor((2, 3, 4), dtype="float32") = R.reverse_sequence(p0, p7, seq_axis=0, batch_axis=1)
            lv8: R.Tensor((3, 4), dtype="int64") = R.bucketize(p1, p5, out_int32=False, right=False)
            lv9: R.Tensor((6,), dtype="int32") = R.bucketize(p5, p5, out_int32=True, right=True)
            lv10: R.Tuple(R.Tensor((2, 4), dtype="float32"), R.Tensor((2, 4), dtype="int64")) = R.median(p0, axis=[1], keepdims=False)
            lv11: R.Tuple(R.Tensor((2, 3, 1), dtype="float32"), R.Tensor((2, 3, 1), dtype="int64")) = R.median(p0, axis=[-1], keepdims=True)
            lv12: R.Tensor((), dtype="float32") = R.median(p0, axis=None, keepdims=False)
            lv13: R.Tuple(R.Tensor((3, 2, 6), dtype="float32"), R.Tensor((3, 2, 6), dtype="float32"), R.Tensor((3, 2, 6), dtype="float32")) = R.meshgrid((p8, p4, p5), indexing="ij")
            lv14: R.Tensor((3, 4), dtype="float32") = R.eye(3, 4, 1, dtype="float32")
            lv15: R.Tensor((3, 3), dtype="float32") = R.eye(3, 3, 0, dtype="float32")
            lv16: R.Tensor((4, 3), dtype="int64") = R.eye(4, 3, -1, dtype="int64")
            lv17: R.Tensor((3, 4), dtype="float32") = R.eye_like(p1, 1, dtype=None)
            lv18: R.Tensor((3, 4), dtype="float32") = R.eye_like(p1, 0, dtype=None)
            lv19: R.Tensor((2, 4), dtype="float32") = R.one_hot(p3, T.float32(2.0), T.float32(-1.0), depth=4, axis=1)
            gv: R.Tuple(R.Tensor((2,), dtype="float32"), R.Tensor((2, 4), dtype="float32"), R.Tensor((2, 2), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((6, 4), dtype="float32"), R.Tensor((6, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((3, 4), dtype="int64"), R.Tensor((6,), dtype="int32"), R.Tuple(R.Tensor((2, 4), dtype="float32"), R.Tensor((2, 4), dtype="int64")), R.Tuple(R.Tensor((2, 3, 1), dtype="float32"), R.Tensor((2, 3, 1), dtype="int64")), R.Tensor((), dtype="float32"), R.Tuple(R.Tensor((3, 2, 6), dtype="float32"), R.Tensor((3, 2, 6), dtype="float32"), R.Tensor((3, 2, 6), dtype="float32")), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 3), dtype="float32"), R.Tensor((4, 3), dtype="int64"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((2, 4), dtype="float32")) = lv, lv1, lv2, lv3, lv4, lv5, lv6, lv7, lv8, lv9, lv10, lv11, lv12, lv13, lv14, lv15, lv16, lv17, lv18, lv19
            R.output(gv)
        return gv
# case
# in float32 (2,3,4) 0.938000023 -0.388999999 1.76699996 1.00600004 0.922999978 -1.02699995 0.151999995 0.40200001 -1.28499997 -2.23699999 0.277999997 1.93700004 1.29499996 0.987999976 1.00899994 5.16800022 0.519999981 2.08400011 3.91400003 0.105999999 0.528999984 2.08800006 3.375 0.625999987
# in float32 (3,4) 0.500999987 -0.504999995 4.29099989 -1.29299998 0.527999997 0.574000001 1.23800004 0.924000025 0.871999979 1.98699999 -2.98699999 0.0430000015
# in int64 (2) 0 2
# in int64 (2) 2 0
# in float32 (2) -1.23599994 -1.58800006
# in float32 (6) -1.84500003 -0.356000006 0.182999998 1.51400006 1.73199999 1.96300006
# in float32 (6,4) -2.82399988 1.796 0.207000002 -0.93900001 2.86599994 1.55799997 1.74300003 2.43099999 1.46599996 -2.5 -0.746999979 2.03699994 -1.50800002 0.104000002 0.824999988 2.91199994 2.62700009 1.82599998 -0.344000012 1.85800004 1.08399999 -0.296000004 2.74300003 1.01600003
# in int64 (3) 1 2 0
# in float32 (3) -1.48500001 2.55900002 -0.483999997
# in int64 (2,1) 1 0
# out float32 (2) 4.29099989 0.871999979
# out float32 (2,4) 0.500999987 -0.504999995 4.29099989 -1.29299998 0.871999979 1.98699999 -2.98699999 0.0430000015
# out float32 (2,2) 1.00899994 0.528999984 1.76699996 -1.28499997
# out float32 (3,4) 0.500999987 -0.504999995 -1.23599994 -1.29299998 0.527999997 0.574000001 1.23800004 0.924000025 -1.58800006 1.98699999 -2.98699999 0.0430000015
# out float32 (3,4) -0.734999955 -0.504999995 4.29099989 -1.29299998 0.527999997 0.574000001 1.23800004 0.924000025 0.871999979 1.98699999 -4.57499981 0.0430000015
# out float32 (6,4) 0.500999987 -0.504999995 4.29099989 -1.29299998 2.86599994 1.55799997 1.74300003 2.43099999 0.527999997 0.574000001 1.23800004 0.924000025 -1.50800002 0.104000002 0.824999988 2.91199994 0.871999979 1.98699999 -2.98699999 0.0430000015 1.08399999 -0.296000004 2.74300003 1.01600003
# out float32 (6,4) -2.82399988 1.796 0.207000002 -0.93900001 0.500999987 -0.504999995 4.29099989 -1.29299998 0.527999997 0.574000001 1.23800004 0.924000025 0.871999979 1.98699999 -2.98699999 0.0430000015 2.62700009 1.82599998 -0.344000012 1.85800004 1.08399999 -0.296000004 2.74300003 1.01600003
# out float32 (2,3,4) 0.938000023 -0.388999999 1.76699996 1.00600004 0.519999981 2.08400011 3.91400003 0.105999999 -1.28499997 -2.23699999 0.277999997 1.93700004 1.29499996 0.987999976 1.00899994 5.16800022 0.922999978 -1.02699995 0.151999995 0.40200001 0.528999984 2.08800006 3.375 0.625999987
# out int64 (3,4) 3 1 6 1 3 3 3 3 3 6 0 2
# out int32 (6) 1 2 3 4 5 6
# out float32 (2,4) 0.922999978 -1.02699995 0.277999997 1.00600004 0.528999984 2.08400011 3.375 0.625999987
# out int64 (2,4) 1 1 2 0 2 1 2 2
# out float32 (2,3,1) 0.938000023 0.151999995 -1.28499997 1.00899994 0.519999981 0.625999987
# out int64 (2,3,1) 0 2 0 2 0 3
# out float32 () 0.922999978
# out float32 (3,2,6) -1.48500001 -1.48500001 -1.48500001 -1.48500001 -1.48500001 -1.48500001 -1.48500001 -1.48500001 -1.48500001 -1.48500001 -1.48500001 -1.48500001 2.55900002 2.55900002 2.55900002 2.55900002 2.55900002 2.55900002 2.55900002 2.55900002 2.55900002 2.55900002 2.55900002 2.55900002 -0.483999997 -0.483999997 -0.483999997 -0.483999997 -0.483999997 -0.483999997 -0.483999997 -0.483999997 -0.483999997 -0.483999997 -0.483999997 -0.483999997
# out float32 (3,2,6) -1.23599994 -1.23599994 -1.23599994 -1.23599994 -1.23599994 -1.23599994 -1.58800006 -1.58800006 -1.58800006 -1.58800006 -1.58800006 -1.58800006 -1.23599994 -1.23599994 -1.23599994 -1.23599994 -1.23599994 -1.23599994 -1.58800006 -1.58800006 -1.58800006 -1.58800006 -1.58800006 -1.58800006 -1.23599994 -1.23599994 -1.23599994 -1.23599994 -1.23599994 -1.23599994 -1.58800006 -1.58800006 -1.58800006 -1.58800006 -1.58800006 -1.58800006
# out float32 (3,2,6) -1.84500003 -0.356000006 0.182999998 1.51400006 1.73199999 1.96300006 -1.84500003 -0.356000006 0.182999998 1.51400006 1.73199999 1.96300006 -1.84500003 -0.356000006 0.182999998 1.51400006 1.73199999 1.96300006 -1.84500003 -0.356000006 0.182999998 1.51400006 1.73199999 1.96300006 -1.84500003 -0.356000006 0.182999998 1.51400006 1.73199999 1.96300006 -1.84500003 -0.356000006 0.182999998 1.51400006 1.73199999 1.96300006
# out float32 (3,4) 0 1 0 0 0 0 1 0 0 0 0 1
# out float32 (3,3) 1 0 0 0 1 0 0 0 1
# out int64 (4,3) 0 0 0 1 0 0 0 1 0 0 0 1
# out float32 (3,4) 0 1 0 0 0 0 1 0 0 0 0 1
# out float32 (3,4) 1 0 0 0 0 1 0 0 0 0 1 0
# out float32 (2,4) -1 -1 2 -1 2 -1 -1 -1
