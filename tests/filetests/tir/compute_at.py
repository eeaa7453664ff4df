# step: split conv:1 4
# step: compute_at pad conv:1
# step: parallel conv:1
# step: parallel conv:0

@T.prim_func(s_tir=True)
def conv(X: T.Buffer((3, 16), "float32"), W: T.Buffer((4, 3, 3), "float32"), Y: T.Buffer((4, 16), "float32")):
    P = T.sblock_alloc_buffer((3, 18))
    for c, x in T.grid(3, 18):
        with T.sblock("pad"):
            vc, vx = T.axis.remap("SS", [c, x])
            P[vc, vx] = T.if_then_else(vx >= 1 and vx < 17, X[vc, vx - 1], T.float32(0))
    for o, x, c, k in T.grid(4, 16, 3, 3):
        with T.sblock("conv"):
            vo, vx, vc, vk = T.axis.remap("SSRR", [o, x, c, k])
            with T.init():
                Y[vo, vx] = T.float32(0)
            Y[vo, vx] = Y[vo, vx] + P[vc, vx + vk] * W[vo, vc, vk]

# ----
# refused: parallel of `x_0` refused: two iterations of `x_0` may touch the same element of `P`
# refused: parallel of `o` refused: two iterations of `o` may touch the same element of `P`
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def conv(X: T.Buffer((T.int64(3), T.int64(16)), "float32"), W: T.Buffer((T.int64(4), T.int64(3), T.int64(3)), "float32"), Y: T.Buffer((T.int64(4), T.int64(16)), "float32")):
    # with T.sblock("root"):
    P = T.sblock_alloc_buffer((T.int64(3), T.int64(18)))
    for o, x_0 in T.grid(T.int64(4), T.int64(4)):
        for ax0, ax1 in T.grid(T.int64(3), T.int64(6)):
            with T.sblock("pad"):
                vc = T.axis.spatial(T.int64(3), ax0)
                vx = T.axis.spatial(T.int64(18), x_0 * T.int64(4) + ax1)
                T.reads(X[vc, vx - T.int64(1)])
                T.writes(P[vc, vx])
                P[vc, vx] = T.if_then_else(vx >= T.int64(1) and vx < T.int64(17), X[vc, vx - T.int64(1)], T.float32(0.0))
        for x_1, c, k in T.grid(T.int64(4), T.int64(3), T.int64(3)):
            with T.sblock("conv"):
                vo = T.axis.spatial(T.int64(4), o)
                vx = T.axis.spatial(T.int64(16), x_0 * T.int64(4) + x_1)
                vc, vk = T.axis.remap("RR", [c, k])
                T.reads(P[vc, vx + vk], W[vo, vc, vk])
                T.writes(Y[vo, vx])
                with T.init():
                    Y[vo, vx] = T.float32(0.0)
                Y[vo, vx] = Y[vo, vx] + P[vc, vx + vk] * W[vo, vc, vk]
