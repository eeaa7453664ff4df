# after: eliminate_dead_code
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 512), dtype="uint8"), b: R.Tensor((512,), dtype="float32")) -> R.Tuple(R.Tensor(("n", 512), dtype="int8"), R.Tensor(("n", 512), dtype="uint8"), R.Tensor(("n", 512), dtype="uint8")):
        # SiLU between two quantisations, with one of the sigmoid's: one table.
        wide: R.Tensor(("n", 512), dtype="float32") = R.astype(x, dtype="float32")
        lv0: R.Tensor(("n", 512), dtype="float32") = R.multiply(R.subtract(wide, R.const(128.0, "float32")), R.const(0.0625, "float32"))
        lv1: R.Tensor(("n", 512), dtype="float32") = R.round(R.multiply(R.sigmoid(lv0), R.const(255.0, "float32")))
        lv2: R.Tensor(("n", 512), dtype="uint8") = R.astype(lv1, dtype="uint8")
        lv3: R.Tensor(("n", 512), dtype="float32") = R.multiply(R.astype(lv2, dtype="float32"), R.const(0.00390625, "float32"))
        lv4: R.Tensor(("n", 512), dtype="float32") = R.round(R.multiply(R.multiply(lv0, lv3), R.const(8.0, "float32")))
        y: R.Tensor(("n", 512), dtype="int8") = R.astype(lv4, dtype="int8")
        # Another tensor takes part, or nothing costs much: none.
        lv5: R.Tensor(("n", 512), dtype="float32") = R.round(R.tanh(R.add(lv0, b)))
        z: R.Tensor(("n", 512), dtype="uint8") = R.astype(lv5, dtype="uint8")
        w: R.Tensor(("n", 512), dtype="uint8") = R.astype(R.maximum(wide, R.const(128.0, "float32")), dtype="uint8")
        return (y, z, w)
# ----
# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 512), dtype="uint8"), b: R.Tensor((512,), dtype="float32")) -> R.Tuple(R.Tensor((n, 512), dtype="int8"), R.Tensor((n, 512), dtype="uint8"), R.Tensor((n, 512), dtype="uint8")):
        wide: R.Tensor((n, 512), dtype="float32") = R.astype(x, dtype="float32")
        gv: R.Tensor((n, 512), dtype="float32") = R.subtract(wide, R.const(128.0, "float32"))
        lv0: R.Tensor((n, 512), dtype="float32") = R.multiply(gv, R.const(0.0625, "float32"))
        y: R.Tensor((n, 512), dtype="int8") = R.take(metadata["ir.GenericConst"][0], x, axis=0, mode="raise")
        gv1: R.Tensor((n, 512), dtype="float32") = R.add(lv0, b)
        gv2: R.Tensor((n, 512), dtype="float32") = R.tanh(gv1)
        lv5: R.Tensor((n, 512), dtype="float32") = R.round(gv2)
        z: R.Tensor((n, 512), dtype="uint8") = R.astype(lv5, dtype="uint8")
        gv3: R.Tensor((n, 512), dtype="float32") = R.maximum(wide, R.const(128.0, "float32"))
        w: R.Tensor((n, 512), dtype="uint8") = R.astype(gv3, dtype="uint8")
        return (y, z, w)

# Metadata omitted: 1 constants, 256 bytes.
# metadata["ir.GenericConst"][0]: int8[256], 256 bytes
