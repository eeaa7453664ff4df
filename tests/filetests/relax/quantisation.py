# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((2, 3, 4), dtype="float32"), p1: R.Tensor((3,), dtype="float32"), p2: R.Tensor((3,), dtype="int32"), p3: R.Tensor((1,), dtype="float32")) -> R.Tuple(R.Tensor((2, 3, 4), dtype="int32"), R.Tensor((2, 3, 4), dtype="int32"), R.Tensor((2, 3, 4), dtype="float32")):
        with R.dataflow():
            lv: R.Tensor((3,), dtype="int8") = R.astype(p2, dtype="int8")
            lv1: R.Tensor((2, 3, 4), dtype="int8") = R.quantize(p0, p1, lv, out_dtype="int8", axis=1)
            lv2: R.Tensor((2, 3, 4), dtype="int32") = R.astype(lv1, dtype="int32")
            lv3: R.Tensor((1,), dtype="float32") = R.abs(p3)
            lv4: R.Tensor((2, 3, 4), dtype="uint8") = R.quantize(p0, lv3, R.const(7, "int8"), out_dtype="uint8", axis=-1)
            lv5: R.Tensor((2, 3, 4), dtype="int32") = R.astype(lv4, dtype="int32")
            lv6: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(p0, R.const(20.0, "float32"))
            lv7: R.Tensor((2, 3, 4), dtype="int8") = R.astype(lv6, dtype="int8")
            lv8: R.Tensor((3,), dtype="int8") = R.astype(p2, dtype="int8")
            lv9: R.Tensor((2, 3, 4), dtype="float32") = R.dequantize(lv7, p1, lv8, out_dtype="float32", axis=1)
            gv: R.Tuple(R.Tensor((2, 3, 4), dtype="int32"), R.Tensor((2, 3, 4), dtype="int32"), R.Tensor((2, 3, 4), dtype="float32")) = lv2, lv5, lv9
            R.output(gv)
        return gv
# case
# in float32 (2,3,4) 0.938000023 -0.388999999 1.76699996 1.00600004 0.922999978 -1.02699995 0.151999995 0.40200001 -1.28499997 -2.23699999 0.277999997 1.93700004 1.29499996 0.987999976 1.00899994 5.16800022 0.519999981 2.08400011 3.91400003 0.105999999 0.528999984 2.08800006 3.375 0.625999987
# in float32 (3) 0.26987499 0.0613124967 0.0431249961
# in int32 (3) 1 -2 3
# in float32 (1) 2.49600005
# out int32 (2,3,4) 4 0 8 5 13 -19 0 5 -27 -49 9 48 6 5 5 20 6 32 62 0 15 51 81 18
# out int32 (2,3,4) 7 7 8 7 7 7 7 7 6 6 7 8 8 7 7 9 7 8 9 7 7 8 8 7
# out float32 (2,3,4) 4.58787489 -2.15899992 9.17574978 5.12762499 1.22624993 -1.10362494 0.306562483 0.613124967 -1.20749986 -2.02687478 0.0862499923 1.50937486 6.47699976 4.85774994 5.12762499 27.5272484 0.73574996 2.63643742 4.90499973 0.245249987 0.301874965 1.63874984 2.75999975 0.388124973
