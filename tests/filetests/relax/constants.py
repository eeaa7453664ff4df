metadata = tvm.ir.load_json("""{
  \"root_index\": 31,
  \"nodes\": [
    {
      \"type\": \"ffi.String\",
      \"data\": \"ir.GenericConst\"
    },
    {
      \"type\": \"None\"
    },
    {
      \"type\": \"ir.PrimType\",
      \"data\": {
        \"span\": 1,
        \"dtype\": \"int64\"
      }
    },
    {
      \"type\": \"int\",
      \"data\": 4
    },
    {
      \"type\": \"ir.IntImm\",
      \"data\": {
        \"span\": 1,
        \"ty\": 2,
        \"value\": 3
      }
    },
    {
      \"type\": \"int\",
      \"data\": 6
    },
    {
      \"type\": \"ir.IntImm\",
      \"data\": {
        \"span\": 1,
        \"ty\": 2,
        \"value\": 5
      }
    },
    {
      \"type\": \"ffi.Array\",
      \"data\": [
        4,
        6
      ]
    },
    {
      \"type\": \"relax.ShapeType\",
      \"data\": {
        \"span\": 1,
        \"values\": 7,
        \"ndim\": 2
      }
    },
    {
      \"type\": \"relax.expr.ShapeExpr\",
      \"data\": {
        \"span\": 1,
        \"ty\": 8,
        \"values\": 7
      }
    },
    {
      \"type\": \"ir.PrimType\",
      \"data\": {
        \"span\": 1,
        \"dtype\": \"float32\"
      }
    },
    {
      \"type\": \"relax.TensorType\",
      \"data\": {
        \"span\": 1,
        \"shape\": 9,
        \"dtype\": 10,
        \"vdevice\": 1,
        \"ndim\": 2
      }
    },
    {
      \"type\": \"ffi.Tensor\",
      \"data\": \"P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAgAAAAIgAQAEAAAAAAAAAAYAAAAAAAAAYAAAAAAAAADByglAxSCwPYcW2b4OLQpAUrg+v1YOLT\\/8qSlA9ig8v7pJnL\\/jpZu8TDeZPz0Kdz93vp8+yXaOP2q8TMAxCNy\\/eemmPi2y7b9GtivAvp8awAwC67+0yLa+SOECwNej8D4=\"
    },
    {
      \"type\": \"ir.GenericConst\",
      \"data\": {
        \"span\": 1,
        \"ty\": 11,
        \"value\": 12
      }
    },
    {
      \"type\": \"ir.IntImm\",
      \"data\": {
        \"span\": 1,
        \"ty\": 2,
        \"value\": 3
      }
    },
    {
      \"type\": \"ffi.Array\",
      \"data\": [
        14
      ]
    },
    {
      \"type\": \"relax.ShapeType\",
      \"data\": {
        \"span\": 1,
        \"values\": 15,
        \"ndim\": 1
      }
    },
    {
      \"type\": \"relax.expr.ShapeExpr\",
      \"data\": {
        \"span\": 1,
        \"ty\": 16,
        \"values\": 15
      }
    },
    {
      \"type\": \"relax.TensorType\",
      \"data\": {
        \"span\": 1,
        \"shape\": 17,
        \"dtype\": 10,
        \"vdevice\": 1,
        \"ndim\": 1
      }
    },
    {
      \"type\": \"ffi.Tensor\",
      \"data\": \"P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAQAAAAIgAQAEAAAAAAAAABAAAAAAAAAAhxZZQD0Kl77RIiNARrYTPw==\"
    },
    {
      \"type\": \"ir.GenericConst\",
      \"data\": {
        \"span\": 1,
        \"ty\": 18,
        \"value\": 19
      }
    },
    {
      \"type\": \"int\",
      \"data\": 2
    },
    {
      \"type\": \"ir.IntImm\",
      \"data\": {
        \"span\": 1,
        \"ty\": 2,
        \"value\": 21
      }
    },
    {
      \"type\": \"ffi.Array\",
      \"data\": [
        22
      ]
    },
    {
      \"type\": \"relax.ShapeType\",
      \"data\": {
        \"span\": 1,
        \"values\": 23,
        \"ndim\": 1
      }
    },
    {
      \"type\": \"relax.expr.ShapeExpr\",
      \"data\": {
        \"span\": 1,
        \"ty\": 24,
        \"values\": 23
      }
    },
    {
      \"type\": \"ir.PrimType\",
      \"data\": {
        \"span\": 1,
        \"dtype\": \"int32\"
      }
    },
    {
      \"type\": \"relax.TensorType\",
      \"data\": {
        \"span\": 1,
        \"shape\": 25,
        \"dtype\": 26,
        \"vdevice\": 1,
        \"ndim\": 1
      }
    },
    {
      \"type\": \"ffi.Tensor\",
      \"data\": \"P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAQAAAAAgAQACAAAAAAAAAAgAAAAAAAAAAQAAAAAAAAA=\"
    },
    {
      \"type\": \"ir.GenericConst\",
      \"data\": {
        \"span\": 1,
        \"ty\": 27,
        \"value\": 28
      }
    },
    {
      \"type\": \"ffi.Array\",
      \"data\": [
        13,
        20,
        29
      ]
    },
    {
      \"type\": \"ffi.Map\",
      \"data\": [
        0,
        30
      ]
    }
  ],
  \"metadata\": {
    \"tvm_version\": \"0.27.0.post1\"
  }
}""")
# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((3, 4), dtype="float32")) -> R.Tuple(R.Tensor((3, 6), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 2), dtype="float32")):
        with R.dataflow():
            lv: R.Tensor((3, 6), dtype="float32") = R.matmul(p0, metadata["ir.GenericConst"][0], out_dtype=None)
            lv1: R.Tensor((3, 4), dtype="float32") = R.add(p0, metadata["ir.GenericConst"][1])
            lv2: R.Tensor((3, 4), dtype="float32") = R.add(p0, R.const("inf", "float32"))
            lv3: R.Tensor((3, 4), dtype="float32") = R.where(R.const(True, "bool"), p0, p0)
            lv4: R.Tensor((3, 2), dtype="float32") = R.take(p0, metadata["ir.GenericConst"][2], axis=1, mode="fast")
            gv: R.Tuple(R.Tensor((3, 6), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 2), dtype="float32")) = lv, lv1, lv2, lv3, lv4
            R.output(gv)
        return gv
# case
# in float32 (3,4) -4.71999979 0.878000021 -1.08000004 0.862999976 -0.984000027 0.728999972 3.12899995 0.708000004 0.866999984 0.745999992 -1.50100005 1.08599997
# out float32 (3,6) -10.4869709 -4.33829784 2.79969406 -8.65873241 2.4504509 0.0677203238 -1.10928929 1.15161014 -11.7824507 -7.76981354 1.17788708 -5.43949223 0.462246895 -4.76813698 1.52932942 4.05019569 -2.46314907 4.60375881
# out float32 (3,4) -1.32799983 0.583000064 1.46899998 1.44000006 2.40799999 0.433999985 5.67799997 1.28500009 4.25899982 0.451000005 1.04799998 1.66299999
# out float32 (3,4) inf inf inf inf inf inf inf inf inf inf inf inf
# out float32 (3,4) -4.71999979 0.878000021 -1.08000004 0.862999976 -0.984000027 0.728999972 3.12899995 0.708000004 0.866999984 0.745999992 -1.50100005 1.08599997
# out float32 (3,2) 0.878000021 -4.71999979 0.728999972 -0.984000027 0.745999992 0.866999984
