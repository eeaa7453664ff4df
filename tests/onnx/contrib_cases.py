#!/usr/bin/env python3
"""Write cases of com.microsoft operators, and of others on float16, as folders, for `reflex conformance`.

usage: contrib_cases.py OUT_DIR        (needs onnx, onnxruntime and numpy)

Models are random; expected outputs are ONNX Runtime's, without graph optimisation. Where its
kernels round a quantised result otherwise than the schema's formula, the expected output is that
of the formula in NumPy, and ONNX Runtime's is checked to be at most one step from it. Expected
outputs on float16 are those of the operator on float32, rounded.
"""
import copy
import os
import shutil
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

MS = "com.microsoft"
RNG = np.random.default_rng(0)
CASES = []


def f32(*shape, scale=1.0):
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def ints(low, high, *shape, dtype=np.int64):
    return RNG.integers(low, high, shape).astype(dtype)


def u8(*shape):
    return ints(0, 256, *shape, dtype=np.uint8)


# Where a CPU has no dot products of 8-bit integers, ONNX Runtime sums two products of uint8 and int8 in 16 bits, and
# saturates: it is a reference for 7-bit integers then.
with open("/proc/cpuinfo") as info:
    FLAGS = info.read()
HAS_DOTS = "avx512_vnni" in FLAGS or "avx_vnni" in FLAGS
LEAST = -128 if HAS_DOTS else -64


def s8(*shape):
    return ints(LEAST, -LEAST, *shape, dtype=np.int8)


class Case:
    """One node. Inputs: (name, array) or None; names that start with a capital letter are
    initialisers."""

    def __init__(self, name, op, inputs, outputs=1, domain=MS, expected=None, like=None, half=False, version=17,
                 **attributes):
        """`like`: a case with the same results, for a form that ONNX Runtime's CPU kernels lack. `half`: floats are
        float16."""
        self.name, self.op, self.domain, self.expected, self.like = name, op, domain, expected, like
        self.half, self.version = half, version
        if half:
            inputs = [i and (i[0], i[1].astype(np.float16) if i[1].dtype == np.float32 else i[1]) for i in inputs]
        self.inputs, self.attributes = inputs, attributes
        # A number of outputs, or for each whether it is asked for.
        self.outputs = [True] * outputs if isinstance(outputs, int) else outputs
        CASES.append(self)

    def model(self):
        given = [i for i in self.inputs if i is not None]
        names = ["" if i is None else i[0] for i in self.inputs]
        results = [f"y{i}" if wanted else "" for i, wanted in enumerate(self.outputs)]
        node = helper.make_node(self.op, names, results, domain=self.domain, **self.attributes)
        value = lambda n, a: helper.make_tensor_value_info(
            n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        parameters = [value(n, a) for n, a in given if not n[0].isupper()]
        constants = [numpy_helper.from_array(a, n) for n, a in given if n[0].isupper()]
        outputs = [onnx.ValueInfoProto(name=n) for n in results if n]
        graph = helper.make_graph([node], self.name, parameters, outputs, constants)
        opsets = [helper.make_opsetid("", self.version), helper.make_opsetid(MS, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def feed(self):
        return [(n, a) for n, a in (i for i in self.inputs if i is not None) if not n[0].isupper()]

    def run(self, model):
        if self.like is not None:
            return self.like.run(self.like.model())
        if self.half:
            wide = copy.copy(self)
            floats = lambda a: a.astype(np.float32) if a.dtype == np.float16 else a
            wide.half, wide.inputs = False, [i and (i[0], floats(i[1])) for i in self.inputs]
            results = wide.run(wide.model())
            return [r.astype(np.float16) if r.dtype == np.float32 else r for r in results]
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        # DynamicQuantizeLSTM quantises the state of each thread's sequences alone.
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results = session.run(None, dict(self.feed()))
        if self.expected is None:
            return results
        steps = np.abs(results[0].astype(np.int64) - self.expected.astype(np.int64)).max()
        assert steps <= 1, f"{self.name}: ONNX Runtime is {steps} steps from the formula"
        return [self.expected]

    def write(self, out):
        model = self.model()
        results = self.run(model)
        for info, result in zip(model.graph.output, results):
            kind = helper.np_dtype_to_tensor_dtype(result.dtype)
            info.CopyFrom(helper.make_tensor_value_info(info.name, kind, result.shape))
        folder = f"{out}/{self.name}"
        data = f"{folder}/test_data_set_0"
        os.makedirs(data)
        onnx.save(model, f"{folder}/model.onnx")
        arrays = [("input", [a for _, a in self.feed()]), ("output", results)]
        for kind, values in arrays:
            for i, array in enumerate(values):
                with open(f"{data}/{kind}_{i}.pb", "wb") as file:
                    file.write(numpy_helper.from_array(np.array(array, order="C")).SerializeToString())


# --- activations and normalisations -------------------------------------------------------

def activations():
    x, bias = f32(2, 5, 16), f32(16)
    Case("gelu", "Gelu", [("x", x)])
    Case("bias_gelu", "BiasGelu", [("x", x), ("B", bias)])
    Case("fast_gelu", "FastGelu", [("x", x)])
    Case("fast_gelu_bias", "FastGelu", [("x", x), ("B", bias)])
    Case("quick_gelu", "QuickGelu", [("x", x)])
    Case("quick_gelu_alpha", "QuickGelu", [("x", x)], alpha=1.0)


def norms():
    x, skip, gamma, beta, bias = f32(2, 5, 16), f32(2, 5, 16), f32(16), f32(16), f32(16)
    sums = [True, False, False, True]
    Case("skip_layer_norm", "SkipLayerNormalization",
         [("x", x), ("skip", skip), ("G", gamma), ("B", beta)], epsilon=1e-12)
    Case("skip_layer_norm_bias_sum", "SkipLayerNormalization",
         [("x", x), ("skip", skip), ("G", gamma), ("B", beta), ("C", bias)], sums, epsilon=1e-5)
    Case("skip_layer_norm_no_beta", "SkipLayerNormalization", [("x", x), ("skip", skip), ("G", gamma)])
    Case("skip_layer_norm_broadcast", "SkipLayerNormalization",
         [("x", x), ("skip", f32(5, 16)), ("G", gamma), ("B", beta)])
    Case("skip_rms_norm", "SkipSimplifiedLayerNormalization",
         [("x", x), ("skip", skip), ("G", gamma)], sums, epsilon=1e-6)
    Case("skip_rms_norm_bias", "SkipSimplifiedLayerNormalization",
         [("x", x), ("skip", skip), ("G", gamma), ("B", bias)], sums)
    Case("rms_norm", "SimplifiedLayerNormalization", [("x", x), ("G", gamma)], domain="",
         axis=-1, epsilon=1e-6)


def embeddings():
    ids, segments = ints(0, 30, 2, 6, dtype=np.int32), ints(0, 2, 2, 6, dtype=np.int32)
    words, positions, kinds = f32(30, 16), f32(8, 16), f32(2, 16)
    gamma, beta = f32(16), f32(16)
    mask = np.array([[1, 1, 1, 1, 0, 0], [1] * 6], np.int32)
    base = [("ids", ids), ("segments", segments), ("W", words), ("P", positions), ("S", kinds),
            ("G", gamma), ("B", beta)]
    Case("embed_layer_norm", "EmbedLayerNormalization", base, 2)
    Case("embed_layer_norm_mask_sum", "EmbedLayerNormalization", base + [("mask", mask)], 3)
    Case("embed_layer_norm_positions", "EmbedLayerNormalization",
         [("ids", ids), None, ("W", words), ("P", positions), None, ("G", gamma), ("B", beta), None,
          ("at", ints(0, 8, 2, 6, dtype=np.int32))], 2, epsilon=1e-6)


def rotary():
    cos, sin = f32(12, 4), f32(12, 4)
    at = ints(0, 12, 2, 3)
    tables = [("C", cos), ("S", sin)]
    Case("rotary_3d", "RotaryEmbedding", [("x", f32(2, 3, 16)), ("at", at)] + tables)
    Case("rotary_interleaved", "RotaryEmbedding", [("x", f32(2, 3, 16)), ("at", at)] + tables,
         interleaved=1)
    Case("rotary_4d", "RotaryEmbedding", [("x", f32(2, 5, 3, 8)), ("at", at)] + tables)
    Case("rotary_offset", "RotaryEmbedding",
         [("x", f32(2, 3, 16)), ("at", np.array([4]))] + tables)
    Case("rotary_partial", "RotaryEmbedding", [("x", f32(2, 3, 32)), ("at", at)] + tables,
         num_heads=2, rotary_embedding_dim=8)


# --- products -----------------------------------------------------------------------------

def products():
    Case("fused_matmul", "FusedMatMul", [("a", f32(2, 3, 4)), ("b", f32(2, 4, 5))], alpha=0.5)
    Case("fused_matmul_trans", "FusedMatMul", [("a", f32(2, 4, 3)), ("b", f32(2, 5, 4))],
         transA=1, transB=1, alpha=0.25)
    Case("fused_matmul_batch", "FusedMatMul", [("a", f32(3, 2, 4)), ("b", f32(2, 4, 5))],
         transBatchA=1)
    Case("fused_matmul_batch_both", "FusedMatMul", [("a", f32(4, 2, 3)), ("b", f32(4, 2, 5))],
         transBatchA=1, transBatchB=1, transA=1)
    Case("transpose_matmul", "TransposeMatMul", [("a", f32(3, 4)), ("b", f32(5, 4))], transB=1)
    for name, more in [("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.1}), ("Tanh", {}),
                       ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4})]:
        Case(f"fused_gemm_{name.lower()}", "FusedGemm",
             [("a", f32(3, 4)), ("B", f32(5, 4)), ("C", f32(5))], transB=1, alpha=0.5,
             activation=name, **more)
    x, w, b, z = f32(1, 3, 8, 8), f32(4, 3, 3, 3), f32(4), f32(1, 4, 8, 8)
    pads = [1, 1, 1, 1]
    Case("fused_conv_relu", "FusedConv", [("x", x), ("W", w), ("B", b)], activation="Relu", pads=pads)
    Case("fused_conv_clip", "FusedConv", [("x", x), ("W", w), ("B", b)], activation="Clip",
         activation_params=[-0.5, 0.75], pads=pads)
    Case("fused_conv_leaky", "FusedConv", [("x", x), ("W", w)], activation="LeakyRelu",
         activation_params=[0.2], pads=pads)
    Case("fused_conv_sum", "FusedConv", [("x", x), ("W", w), ("B", b), ("z", z)],
         activation="Relu", pads=pads)


def blocks():
    for bits, k, block, n in [(4, 64, 32, 24), (4, 40, 16, 7), (8, 64, 32, 8), (2, 64, 32, 8)]:
        kb = (k + block - 1) // block
        packed, scales = u8(n, kb, block * bits // 8), f32(n, kb, scale=0.1)
        base = [("a", f32(2, 3, k)), ("B", packed), ("S", scales)]
        sizes = dict(K=k, N=n, bits=bits, block_size=block, accuracy_level=1)
        Case(f"matmul_nbits_{bits}_{k}_{block}", "MatMulNBits", base, **sizes)
        zero = ("Z", u8(n, (kb * bits + 7) // 8))
        Case(f"matmul_nbits_{bits}_{k}_{block}_zero", "MatMulNBits", base + [zero], **sizes)
        Case(f"matmul_nbits_{bits}_{k}_{block}_bias", "MatMulNBits",
             base + [zero, None, ("C", f32(n))], **sizes)
    n, k, block = 8, 64, 16
    base = [("a", f32(5, k)), ("B", u8(n, 4, 8)), ("S", f32(n, 4, scale=0.1))]
    Case("matmul_nbits_float_zero", "MatMulNBits", base + [("Z", ints(0, 16, n, 4, dtype=np.float32))],
         K=k, N=n, bits=4, block_size=block)
    Case("matmul_nbits_flat", "MatMulNBits",
         [base[0], base[1], ("S", base[2][1].reshape(-1)), ("Z", u8(n * 2))],
         K=k, N=n, bits=4, block_size=block, accuracy_level=1)
    Case("matmul_nbits_groups", "MatMulNBits",
         base + [None, ("G", ints(0, 4, k, dtype=np.int32))],
         K=k, N=n, bits=4, block_size=block, accuracy_level=1)
    for kind in (0, 1):
        Case(f"matmul_bnb4_{kind}", "MatMulBnb4",
             [("a", f32(3, 48)), ("B", u8(10 * 48 // 2)), ("S", np.abs(f32(10 * 48 // 16)))],
             K=48, N=10, block_size=16, quant_type=kind)
    for bits in (4, 8):
        data, scales = u8(20, 64 * bits // 8), f32(20, 4, scale=0.1)
        base = [("Data", data), ("ids", ints(0, 20, 2, 3)), ("S", scales)]
        attributes = dict(bits=bits, block_size=16, gather_axis=0, quantize_axis=1)
        Case(f"gather_block_quantized_{bits}", "GatherBlockQuantized", base, **attributes)
        Case(f"gather_block_quantized_{bits}_zero", "GatherBlockQuantized",
             base + [("Z", u8(20, 4 * bits // 8))], **attributes)


# --- attention ----------------------------------------------------------------------------

def multi_head():
    b, s, n, h = 2, 5, 2, 8
    d = n * h
    q, k, v = f32(b, s, d), f32(b, s, d), f32(b, s, d)
    base = [("q", q), ("k", k), ("v", v)]
    bias = ("Bias", f32(3 * d))
    lengths, mask = np.array([3, 5], np.int32), np.array([[1, 1, 1, 0, 0], [1] * 5], np.int32)
    past = [("past_k", f32(b, n, 3, h)), ("past_v", f32(b, n, 3, h))]
    op = "MultiHeadAttention"
    Case("mha", op, base, num_heads=n)
    Case("mha_bias", op, base + [bias], num_heads=n)
    Case("mha_scale", op, base, num_heads=n, scale=0.2)
    Case("mha_lengths", op, base + [None, ("lengths", lengths)], num_heads=n)
    Case("mha_mask", op, base + [None, ("mask", mask)], num_heads=n)
    Case("mha_mask_filter", op, base + [None, ("mask", mask)], num_heads=n, mask_filter_value=-3.0)
    Case("mha_causal", op, base, num_heads=n, unidirectional=1)
    Case("mha_attention_bias", op, base + [None, None, ("extra", f32(1, n, s, s))], num_heads=n)
    Case("mha_past", op, base + [None, None, None] + past, 3, num_heads=n)
    Case("mha_past_causal", op, base + [None, None, None] + past, 3, num_heads=n, unidirectional=1)
    Case("mha_cross", op, [("q", q), ("k", f32(b, 7, d)), ("v", f32(b, 7, d))], num_heads=n)
    Case("mha_cross_heads", op, [("q", q), ("k", f32(b, n, 7, h)), ("v", f32(b, n, 7, h))], num_heads=n)
    plain = CASES[-12]
    assert plain.name == "mha"
    heads = [x.reshape(b, s, n, 1, h) for x in (q, k, v)]
    Case("mha_packed", op, [("qkv", np.concatenate(heads, 3))], num_heads=n, like=plain)
    Case("mha_packed_kv", op, [("q", q), ("kv", np.concatenate(heads[1:], 3))], num_heads=n, like=plain)
    Case("mha_value_width", op, [("q", q), ("k", k), ("v", f32(b, s, n * 4))], num_heads=n)


def merged():
    b, s, i, n, h = 2, 5, 12, 2, 8
    d = n * h
    base = [("x", f32(b, s, i)), ("W", f32(i, 3 * d, scale=0.3)), ("B", f32(3 * d))]
    op = "Attention"
    mask = np.array([[1, 1, 1, 0, 0], [1] * 5], np.int32)
    Case("attention", op, base, num_heads=n)
    Case("attention_mask", op, base + [("mask", mask)], num_heads=n)
    Case("attention_mask_3d", op,
         base + [("mask", ints(0, 2, b, s, s, dtype=np.int32) | np.eye(s, dtype=np.int32))], num_heads=n)
    Case("attention_lengths", op, base + [("mask", np.array([3, 5], np.int32))], num_heads=n)
    Case("attention_ranges", op, base + [("mask", np.array([5, 4, 1, 0], np.int32))], num_heads=n)
    Case("attention_causal", op, base, num_heads=n, unidirectional=1)
    Case("attention_past", op, base + [None, ("past", f32(2, b, n, 3, h))], 2, num_heads=n)
    Case("attention_past_causal", op, base + [None, ("past", f32(2, b, n, 3, h))], 2, num_heads=n,
         unidirectional=1)
    Case("attention_bias", op, base + [None, None, ("extra", f32(b, n, s, s))], num_heads=n)
    Case("attention_widths", op,
         [base[0], ("W", f32(i, 2 * d + 8, scale=0.3)), ("B", f32(2 * d + 8))], num_heads=n,
         qkv_hidden_sizes=[d, d, 8])
    one = np.array(0.02, np.float32)
    Case("q_attention", "QAttention",
         [("x", u8(b, s, i)), ("W", s8(i, 3 * d)), ("B", f32(3 * d)), ("xs", one),
          ("Ws", np.array(0.01, np.float32)), None, ("xz", np.array(120, np.uint8)),
          ("Wz", np.array(0, np.int8))], num_heads=n)


def group_query():
    op, n, g, h = "GroupQueryAttention", 4, 2, 16
    tables = [("C", np.cos(f32(16, h // 2))), ("S", np.sin(f32(16, h // 2)))]

    def rms(x, weight):
        heads = x.reshape(*x.shape[:2], -1, h)
        root = np.sqrt((heads**2).mean(-1, keepdims=True) + np.float32(1e-6))
        return (heads / root * weight).reshape(x.shape)

    def case(name, b, s, past, total, used=None, tail=(), rotary=True, capacity=None, norms=None,
             **more):
        q, k, v = f32(b, s, n * h), f32(b, s, g * h), f32(b, s, g * h)
        used = [total] * b if used is None else used
        room = past if capacity is None else capacity
        if norms:
            like = Case("", op, [("q", rms(q, norms[0])), ("k", rms(k, norms[1])), ("v", v)] + [
                ("past_k", f32(b, g, room, h)), ("past_v", f32(b, g, room, h)),
                ("last", np.array(used, np.int32) - 1), ("Total", np.array(total, np.int32))] + tables,
                3, num_heads=n, kv_num_heads=g, do_rotary=1)
            CASES.pop()
            more["like"] = like
            tail = [None] * 5 + [("Gq", norms[0]), ("Gk", norms[1])]
        inputs = [("q", q), ("k", k), ("v", v), ("past_k", f32(b, g, room, h)),
                  ("past_v", f32(b, g, room, h)), ("last", np.array(used, np.int32) - 1),
                  ("Total", np.array(total, np.int32))]
        inputs += tables if rotary else []
        inputs += [None] * (9 - len(inputs)) if tail else []
        inputs += list(tail)
        Case(name, op, inputs, 3, num_heads=n, kv_num_heads=g, do_rotary=int(rotary), **more)

    case("gqa_prompt", 2, 5, 0, 5)
    case("gqa_prompt_plain", 2, 5, 0, 5, rotary=False)
    case("gqa_prompt_interleaved", 1, 5, 0, 5, rotary_interleaved=1)
    case("gqa_step", 2, 1, 6, 7)
    case("gqa_step_plain", 1, 1, 6, 7, rotary=False)
    case("gqa_step_softcap", 1, 1, 6, 7, softcap=5.0)
    case("gqa_step_scale", 1, 1, 6, 7, scale=0.1)
    case("gqa_window", 1, 1, 8, 9, local_window_size=4)
    case("gqa_prompt_window", 1, 7, 0, 7, local_window_size=3)
    case("gqa_several", 1, 3, 6, 9)
    case("gqa_smooth", 1, 4, 0, 4, smooth_softmax=1)
    case("gqa_sink", 1, 4, 0, 4, tail=[None, None, ("Sink", f32(n))])
    case("gqa_bias", 1, 4, 0, 4, tail=[None, ("extra", f32(1, n, 4, 4))])
    case("gqa_positions", 1, 1, 6, 7, tail=[("at", np.array([[3]]))])
    case("gqa_norm", 1, 4, 0, 4, norms=[f32(h), f32(h)])
    case("gqa_bidirectional", 1, 4, 0, 4, causal=0)
    q = f32(1, 4, (n + 2 * g) * h)
    Case("gqa_packed", op, [("qkv", q), None, None, ("past_k", f32(1, g, 0, h)),
                            ("past_v", f32(1, g, 0, h)), ("last", np.array([3], np.int32)),
                            ("Total", np.array(4, np.int32))] + tables, 3, num_heads=n,
         kv_num_heads=g, do_rotary=1)


# --- quantised ----------------------------------------------------------------------------

def scale(value):
    return np.array(value, np.float32)


def dequantized(x, s, z):
    return (x.astype(np.int32) - np.int32(z)).astype(np.float32) * np.float32(s)


def quantized(y, s, z):
    kind = np.iinfo(z.dtype)
    steps = np.rint(y.astype(np.float32) / np.float32(s)) + np.float32(z)
    return np.clip(steps, kind.min, kind.max).astype(z.dtype)


def qlinear():
    for kind, make, zeros in (("u8", u8, (120, 130, 110)), ("s8", s8, (3, -5, 7))):
        dtype = make(1).dtype
        za, zb, zc = (np.array(z, dtype) for z in zeros)
        a, b = make(2, 3, 8), make(3, 8)
        operands = [("a", a), ("As", scale(0.02)), ("Az", za), ("b", b), ("Bs", scale(0.03)), ("Bz", zb)]
        x, y = dequantized(a, 0.02, za), dequantized(b, 0.03, zb)
        Case(f"qlinear_add_{kind}", "QLinearAdd", operands + [("Cs", scale(0.04)), ("Cz", zc)],
             expected=quantized(x + y, 0.04, zc))
        Case(f"qlinear_mul_{kind}", "QLinearMul", operands + [("Cs", scale(0.05)), ("Cz", zc)],
             expected=quantized(x * y, 0.05, zc))
        one = [("a", a), ("As", scale(0.02)), ("Az", za)]
        sigmoid = (1 / (1 + np.exp(-x.astype(np.float64)))).astype(np.float32)
        Case(f"qlinear_sigmoid_{kind}", "QLinearSigmoid", one + [("Cs", scale(1 / 256)), ("Cz", za * 0)],
             expected=quantized(sigmoid, 1 / 256, za * 0))
        leaky = np.where(x < 0, x * np.float32(0.1), x)
        Case(f"qlinear_leaky_relu_{kind}", "QLinearLeakyRelu", one + [("Cs", scale(0.021)), ("Cz", zc)],
             alpha=0.1, expected=quantized(leaky, 0.021, zc))
        joined = np.concatenate([x, np.broadcast_to(y, (2, 3, 8))], 1)
        Case(f"qlinear_concat_{kind}", "QLinearConcat",
             [("Cs", scale(0.04)), ("Cz", zc)] + one
             + [("b", np.ascontiguousarray(np.broadcast_to(b, (2, 3, 8)))), ("Bs", scale(0.03)), ("Bz", zb)],
             axis=1, expected=quantized(joined, 0.04, zc))
        picked = ints(0, 2, 2, 3, 8, dtype=bool)
        Case(f"qlinear_where_{kind}", "QLinearWhere",
             [("c", picked)] + operands + [("Cs", scale(0.04)), ("Cz", zc)],
             expected=quantized(np.where(picked, x, y), 0.04, zc))
        e = np.exp((x - x.max(-1, keepdims=True)).astype(np.float64))
        soft = (e / e.sum(-1, keepdims=True)).astype(np.float32)
        zero = np.array(0 if kind == "u8" else -128, dtype)
        Case(f"qlinear_softmax_{kind}", "QLinearSoftmax", one + [("Cs", scale(1 / 256)), ("Cz", zero)],
             axis=-1, opset=13, expected=quantized(soft, 1 / 256, zero))
        image = make(1, 4, 6, 6)
        wide = dequantized(image, 0.02, za)
        mean = wide.mean((2, 3), keepdims=True, dtype=np.float32)
        Case(f"qlinear_global_average_pool_{kind}", "QLinearGlobalAveragePool",
             [("x", image), ("As", scale(0.02)), ("Az", za), ("Cs", scale(0.003)), ("Cz", zc)],
             channels_last=0, expected=quantized(mean, 0.003, zc))
        pooled = wide.reshape(1, 4, 3, 2, 3, 2).mean((3, 5), dtype=np.float32)
        pool = [("As", scale(0.02)), ("Az", za), ("Cs", scale(0.015)), ("Cz", zc)]
        Case(f"qlinear_average_pool_{kind}", "QLinearAveragePool", [("x", image)] + pool,
             kernel_shape=[2, 2], strides=[2, 2], expected=quantized(pooled, 0.015, zc))
        last = np.ascontiguousarray(image.transpose(0, 2, 3, 1))
        Case(f"qlinear_average_pool_last_{kind}", "QLinearAveragePool", [("x", last)] + pool,
             kernel_shape=[2, 2], strides=[2, 2], channels_last=1,
             expected=quantized(pooled.transpose(0, 2, 3, 1), 0.015, zc))
        Case(f"nhwc_max_pool_{kind}", "NhwcMaxPool", [("x", last)], kernel_shape=[2, 2], strides=[2, 2])


def quantised_products():
    a = f32(2, 5, 24)
    for kind, make in (("u8", u8), ("s8", s8)):
        dtype = make(1).dtype
        w, zero = make(24, 9), np.array(5, dtype)
        Case(f"dynamic_quantize_matmul_{kind}", "DynamicQuantizeMatMul",
             [("a", a), ("W", w), ("Ws", scale(0.01))])
        Case(f"dynamic_quantize_matmul_{kind}_column", "DynamicQuantizeMatMul",
             [("a", a), ("W", w), ("Ws", np.abs(f32(9, scale=0.01))), ("Wz", make(9)), ("B", f32(9))])
        Case(f"matmul_integer_to_float_{kind}", "MatMulIntegerToFloat",
             [("a", u8(5, 24)), ("W", w), ("As", scale(0.02)), ("Ws", np.abs(f32(9, scale=0.01))),
              ("Az", np.array(120, np.uint8)), ("Wz", zero), ("B", f32(9))])
        gemm = [("a", u8(5, 24)), ("As", scale(0.02)), ("Az", np.array(120, np.uint8)),
                ("W", make(9, 24)), ("Ws", np.abs(f32(9, scale=0.01))), ("Wz", make(9)),
                ("C", ints(-500, 500, 9, dtype=np.int32))]
        Case(f"qgemm_{kind}_float", "QGemm", gemm, transB=1)
        Case(f"qgemm_{kind}_quantised", "QGemm",
             gemm + [("Ys", scale(0.3)), ("Yz", np.array(100, np.uint8))], transB=1)
    Case("quantize_linear_u16", "QuantizeLinear",
         [("x", f32(3, 7)), ("S", scale(0.001)), ("Z", np.array(30000, np.uint16))])
    Case("dequantize_linear_u16", "DequantizeLinear",
         [("x", ints(0, 65536, 3, 7, dtype=np.uint16)), ("S", scale(0.001)), ("Z", np.array(30000, np.uint16))])
    Case("quantize_linear_axis", "QuantizeLinear",
         [("x", f32(3, 7)), ("S", np.abs(f32(3)) + 0.01), ("Z", u8(3))], axis=0)


def quantised_lstm():
    """Weights of both signs and scales of both ranks; directions, lengths, peepholes, states."""
    t, n, i, h = 5, 1, 7, 6

    def case(name, make, directions=1, columns=False, batch=n, tail=(None,) * 5, **attributes):
        rows = (directions, 4 * h) if columns else (directions,)
        scales = [np.abs(f32(*rows, scale=0.01)) + np.float32(0.002) for _ in range(2)]
        zeros = [ints(100, 150, *rows, dtype=np.uint8) if make is u8 else np.zeros(rows, np.int8) for _ in range(2)]
        Case(f"dynamic_quantize_lstm_{name}", "DynamicQuantizeLSTM",
             [("x", f32(t, batch, i)), ("W", make(directions, i, 4 * h)), ("R", make(directions, h, 4 * h)), *tail,
              ("Ws", scales[0]), ("Wz", zeros[0]), ("Rs", scales[1]), ("Rz", zeros[1])],
             outputs=3, hidden_size=h, **attributes)

    bias = lambda d: ("B", f32(d, 8 * h))
    case("s8", s8)
    case("u8", u8, tail=(bias(1), None, None, None, None))
    case("columns", s8, columns=True, tail=(bias(1), None, None, None, None))
    case("reverse", s8, direction="reverse")
    case("both", s8, directions=2, columns=True, direction="bidirectional",
         tail=(bias(2), None, ("h", f32(2, n, h)), ("c", f32(2, n, h)), None))
    case("batch", s8, batch=3, tail=(bias(1), None, ("h", f32(1, 3, h)), ("c", f32(1, 3, h)), None))
    case("peephole", s8, tail=(bias(1), None, None, None, ("P", f32(1, 3 * h))))
    case("lengths", s8, batch=2, tail=(bias(1), ("lengths", np.array([5, 3], np.int32)), None, None, None))


def twins():
    """Operators that ONNX has too."""
    x = f32(2, 3, 5)
    Case("expand_dims", "ExpandDims", [("x", x), ("A", np.array(-2, np.int32))])
    Case("gather_nd", "GatherND", [("x", x), ("at", np.array([[0, 2], [1, 0]]))])
    Case("pad_constant", "Pad", [("x", x), ("P", np.array([0, 1, 2, 1, 0, -1])), ("V", np.array([0.5], np.float32))])
    Case("pad_reflect", "Pad", [("x", x), ("P", np.array([0, 1, 2, 0, 1, 2]))], mode="reflect")
    Case("range", "Range", [("S", np.array(2.0, np.float32)), ("L", np.array(9.5, np.float32)), ("D", np.array(1.5, np.float32))])
    Case("trilu", "Trilu", [("x", x), ("K", np.array([1]))], upper=0)
    Case("unique", "Unique", [("x", np.array([2, 1, 1, 3, 4, 3], np.float32))], outputs=3)
    for metric in ("euclidean", "sqeuclidean"):
        Case(f"cdist_{metric}", "CDist", [("a", f32(6, 4)), ("b", f32(3, 4))], metric=metric)
    for mode in ("bilinear", "nearest", "bicubic"):
        for corners in (0, 1):
            Case(f"grid_sample_{mode}_{corners}", "GridSample",
                 [("x", f32(2, 3, 5, 6)), ("g", np.tanh(f32(2, 4, 3, 2)) * 1.2)], mode=mode, align_corners=corners,
                 padding_mode="zeros")
    conv = [("x", f32(2, 4, 6)), ("W", f32(4, 1, 3)), ("B", f32(4))]
    Case("causal_conv", "CausalConvWithState", conv, outputs=2, activation="silu")
    Case("causal_conv_past", "CausalConvWithState", conv + [("past", f32(2, 4, 2))], outputs=2)
    heads = dict(q_num_heads=2, kv_num_heads=2)
    linear = [("q", f32(1, 5, 8)), ("k", f32(1, 5, 8, scale=0.3)), ("v", f32(1, 5, 6))]
    past = ("past", f32(1, 2, 4, 3))
    decay, beta = ("decay", -np.abs(f32(1, 5, 8))), ("beta", np.abs(np.tanh(f32(1, 5, 2))))
    Case("linear_attention", "LinearAttention", linear + [past], outputs=2, update_rule="linear", **heads)
    Case("linear_attention_gated", "LinearAttention", linear + [past, decay], outputs=2, update_rule="gated", **heads)
    Case("linear_attention_delta", "LinearAttention", linear + [past, decay, beta], outputs=2,
         update_rule="gated_delta", scale=0.25, **heads)


def halves():
    """Operators of several steps, on float16."""
    x, maps = f32(2, 6, 8), f32(2, 6, 8, 8)

    def case(op, inputs, name=None, outputs=1, domain="", opset=21, **attributes):
        Case(f"half_{name or op.lower()}", op, inputs, outputs, domain, half=True, version=opset, **attributes)

    case("Softmax", [("x", f32(4, 27, scale=5))], axis=1)
    case("LogSoftmax", [("x", f32(4, 27, scale=5))], axis=1)
    case("LayerNormalization", [("x", x), ("W", f32(8)), ("B", f32(8))])
    per_channel = [("x", maps), ("W", f32(6)), ("B", f32(6))]
    case("InstanceNormalization", per_channel)
    case("GroupNormalization", per_channel, num_groups=3)
    case("BatchNormalization", per_channel + [("M", f32(6)), ("V", np.abs(f32(6)))])
    for op in ("Gelu", "Mish", "HardSwish", "Softplus", "Selu", "Elu", "Celu", "HardSigmoid", "MeanVarianceNormalization"):
        case(op, [("x", maps)])
    case("LRN", [("x", maps)], size=3)
    case("LpNormalization", [("x", x)])
    case("RMSNormalization", [("x", x), ("W", f32(8))], opset=23)
    case("CumSum", [("x", f32(3, 50)), ("A", np.array(1))])
    several = [("x", x), ("y", f32(2, 6, 8)), ("z", f32(2, 6, 8))]
    case("Sum", several)
    case("Mean", several)
    case("LSTM", [("x", f32(5, 2, 7)), ("W", f32(1, 24, 7)), ("R", f32(1, 24, 6)), ("B", f32(1, 48))], outputs=3,
         hidden_size=6)
    case("GRU", [("x", f32(5, 2, 7)), ("W", f32(1, 18, 7)), ("R", f32(1, 18, 6)), ("B", f32(1, 36))], outputs=2,
         hidden_size=6)
    case("BiasGelu", [("x", x), ("B", f32(8))], domain=MS)
    case("FastGelu", [("x", x), ("B", f32(8))], domain=MS)
    case("QuickGelu", [("x", x)], domain=MS)


def packed_blocks():
    """Weights that fill panels of columns, so that they stay packed; one row, few, and many."""
    n = 40
    for bits, k, block in [(4, 64, 32), (4, 72, 16), (8, 64, 32), (2, 96, 16)]:
        kb = (k + block - 1) // block
        base = [("B", u8(n, kb, block * bits // 8)), ("S", f32(n, kb, scale=0.1))]
        zero = ("Z", u8(n, (kb * bits + 7) // 8))
        sizes = dict(K=k, N=n, bits=bits, block_size=block, accuracy_level=1)
        for rows in (1, 5, 50):
            a = ("a", f32(rows, k))
            Case(f"packed_nbits_{bits}_{k}_{rows}", "MatMulNBits", [a] + base, **sizes)
            Case(f"packed_nbits_{bits}_{k}_{rows}_zero", "MatMulNBits", [a] + base + [zero], **sizes)
    for kind in (0, 1):
        Case(f"packed_bnb4_{kind}", "MatMulBnb4",
             [("a", f32(3, 48)), ("B", u8(n * 48 // 2)), ("S", np.abs(f32(n * 48 // 16)))],
             K=48, N=n, block_size=16, quant_type=kind)


def int8_activations():
    """Products whose activations may be rounded to 8 bits. No sum is of terms that cancel: the order of a sum of
    float32 would decide about a result near zero."""
    for bits, n, k, block in [(4, 40, 64, 32), (4, 17, 72, 16), (4, 64, 256, 128), (8, 40, 64, 32)]:
        kb = (k + block - 1) // block
        middle = 0x88 if bits == 4 else 0x80
        codes, scales = u8(n, kb, block * bits // 8) | middle, np.abs(f32(n, kb, scale=0.1)) + 0.05
        base = [("B", codes.astype(np.uint8)), ("S", scales.astype(np.float32))]
        zero = ("Z", (u8(n, (kb * bits + 7) // 8) & (255 - middle)).astype(np.uint8))
        sizes = dict(K=k, N=n, bits=bits, block_size=block, accuracy_level=4)
        for rows in (1, 5, 50):
            signs = np.where(np.arange(rows) % 2 == 0, 1, -1)[:, None]
            name, a = f"int8_nbits_{bits}_{k}_{rows}", ("a", (signs * (np.abs(f32(rows, k)) + 0.1)).astype(np.float32))
            Case(name, "MatMulNBits", [a] + base, **sizes)
            Case(f"{name}_zero", "MatMulNBits", [a] + base + [zero], **sizes)
            Case(f"{name}_bias", "MatMulNBits", [a] + base + [zero, None, ("C", f32(n))], **sizes)


def main():
    out = sys.argv[1]
    shutil.rmtree(out, ignore_errors=True)
    for make in (activations, norms, embeddings, rotary, products, blocks, multi_head, merged,
                 group_query, qlinear, quantised_products, quantised_lstm, twins, halves, packed_blocks,
                 int8_activations):
        make()
    failed = 0
    for case in CASES:
        try:
            case.write(out)
        except Exception as error:
            failed += 1
            print(f"not written: {case.name}: {error!r}"[:300])
    open(f"{out}/.complete", "w").write(onnxruntime.__version__)
    print(f"{len(CASES) - failed} cases written, {failed} not")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
