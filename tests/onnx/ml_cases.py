#!/usr/bin/env python3
"""Write cases of ai.onnx.ml, of strings, and of older operator sets as folders, for `reflex conformance`.

usage: ml_cases.py OUT_DIR        (needs onnx, onnxruntime, numpy, scikit-learn and skl2onnx)

Single nodes with random attributes, then models of scikit-learn, one for each family of skl2onnx's
converters. Expected outputs are ONNX Runtime's, without graph optimisation.
"""
import os
import shutil
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ML = "ai.onnx.ml"
RNG = np.random.default_rng(7)
CASES = []


def f32(*shape):
    """Multiples of 1/8, which thresholds and sums meet exactly."""
    return (RNG.integers(-24, 25, shape) / 8).astype(np.float32)


def floats(*shape):
    return [float(v) for v in f32(*shape).ravel()]


def texts(*words):
    return np.array(words, dtype=object)


class Case:
    def __init__(self, name, model, feed):
        self.name, self.model, self.feed = name, model, feed
        CASES.append(self)


def node(name, op, inputs, outputs=1, opset=3, domain=ML, default_opset=18, **attributes):
    # Inputs that are arrays of objects are strings.
    names = [f"x{i}" for i in range(len(inputs))]
    results = [f"y{i}" for i in range(outputs)]
    made = helper.make_node(op, names, results, domain=domain, **attributes)
    value = lambda n, a: helper.make_tensor_value_info(
        n, TensorProto.STRING if a.dtype == object else helper.np_dtype_to_tensor_dtype(a.dtype),
        a.shape)
    graph = helper.make_graph(
        [made], name, [value(n, a) for n, a in zip(names, inputs)],
        [onnx.ValueInfoProto(name=n) for n in results])
    opsets = [helper.make_opsetid("", default_opset), helper.make_opsetid(ML, opset),
              helper.make_opsetid("com.microsoft", 1)]
    Case(name, helper.make_model(graph, opset_imports=opsets, ir_version=8), dict(zip(names, inputs)))


def map_node(name, op, keys, value, **attributes):
    """A node whose input is a map to float32 numbers, the only kind that ONNX Runtime takes from Python."""
    kind = helper.make_map_type_proto(keys, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    made = helper.make_node(op, ["x0"], ["y0"], domain=ML, **attributes)
    graph = helper.make_graph([made], name, [onnx.ValueInfoProto(name="x0", type=kind)],
                              [onnx.ValueInfoProto(name="y0")])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(ML, 3)]
    Case(name, helper.make_model(graph, opset_imports=opsets, ir_version=8), {"x0": value})


def maps():
    numbers = [0.5, 1 / 3, -1e10, 123456.789, 1e-5, np.nan, np.inf, -np.inf, 2.7, -2.7, 1e30, -0.0]
    places = {5 * at - 3: float(np.float32(v)) for at, v in reversed(list(enumerate(numbers[1:], 1)))}
    # What int64 does not hold is the compiler's choice in ONNX Runtime.
    finite = {at: v for at, v in places.items() if abs(v) < 1e18}
    for to in ["TO_FLOAT", "TO_STRING", "TO_INT64"]:
        for name, form in {"dense": {}, "sparse": dict(map_form="SPARSE", max_map=60),
                           "cut": dict(map_form="SPARSE", max_map=8)}.items():
            map_node(f"cast_map_{name}_{to.lower()}", "CastMap", TensorProto.INT64,
                     finite if to == "TO_INT64" else places, cast_to=to, **form)
    map_node("cast_map_negative_keys", "CastMap", TensorProto.INT64, {3: 1.0, -7: 2.0, -1: 3.0}, cast_to="TO_FLOAT")
    map_node("cast_map_defaults", "CastMap", TensorProto.INT64, {4: 1.0, 0: 2.0})
    map_node("cast_map_one_position", "CastMap", TensorProto.INT64, {4: 1.0, 0: 2.0}, map_form="SPARSE")
    words = ["b", "a long word", "", "\u00fcber", "a"]
    map_node("dict_vectorizer_texts", "DictVectorizer", TensorProto.STRING,
             {"a": 1.5, "\u00fcber": -2.0, "unknown": 3.0, "a long word": 1 / 3}, string_vocabulary=words)
    map_node("dict_vectorizer_no_hit", "DictVectorizer", TensorProto.STRING, {"c": 1.0}, string_vocabulary=words)
    map_node("dict_vectorizer_ints", "DictVectorizer", TensorProto.INT64,
             {1 << 40: 1.5, -3: 2.5, 8: 1.0}, int64_vocabulary=[7, -3, 1 << 40, -3])


def graph_case(name, nodes, feed, outputs, opset=18, types=None):
    """A model of several nodes. Inputs that are lists are sequences."""
    def typed(n, a):
        if types and n in types:
            return helper.make_value_info(n, types[n])
        first = a[0] if isinstance(a, list) else a
        kind = TensorProto.STRING if first.dtype == object else helper.np_dtype_to_tensor_dtype(first.dtype)
        shape = [None] * first.ndim
        if isinstance(a, list):
            return helper.make_tensor_sequence_value_info(n, kind, shape)
        return helper.make_tensor_value_info(n, kind, shape)

    graph = helper.make_graph(nodes, name, [typed(n, a) for n, a in feed.items()],
                              [o if isinstance(o, onnx.ValueInfoProto) else onnx.ValueInfoProto(name=o) for o in outputs])
    Case(name, helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), feed)


def sequences():
    """Sequences of strings: structure that is known while importing, and that only a run knows."""
    of = helper.make_node
    a, b, c = texts("one", "a much longer one", ""), texts("x", "\u00fc"), texts("four")
    at = np.array(1, np.int64)
    three = {"a": a, "b": b, "c": c}
    built = of("SequenceConstruct", ["a", "b", "c"], ["s"])
    listed = helper.make_tensor_sequence_value_info("y", TensorProto.STRING, None)
    graph_case("sequence_texts", [built, of("SequenceLength", ["s"], ["n"]), of("ConcatFromSequence", ["s"], ["y"], axis=-1)],
               three, ["n", "y"])
    graph_case("sequence_texts_at_data", [built, of("SequenceAt", ["s", "at"], ["y"])], {**three, "at": at}, ["y"])
    graph_case("sequence_texts_insert", [built, of("SequenceInsert", ["s", "b", "at"], ["t"]), of("SequenceErase", ["t"], ["y"])],
               {**three, "at": at}, [listed])
    graph_case("sequence_texts_empty", [of("SequenceEmpty", [], ["s"], dtype=TensorProto.STRING), of("SequenceInsert", ["s", "a"], ["y"])],
               {"a": a}, [listed])
    graph_case("sequence_texts_input", [of("SequenceInsert", ["s", "a", "at"], ["t"]), of("ConcatFromSequence", ["t"], ["y"], axis=0),
                                        of("SequenceAt", ["t", "at"], ["z"])], {"s": [b, c, b], "a": a, "at": at}, ["y", "z"])
    graph_case("sequence_texts_stacked", [of("ConcatFromSequence", ["s"], ["y"], axis=1, new_axis=1)],
               {"s": [b, texts("long text", "u"), b]}, ["y"])
    table = np.array([["a", "bc", ""], ["", "word", "more words"]], dtype=object)
    for axis in [0, 1]:
        for keep in [0, 1]:
            graph_case(f"split_to_sequence_texts_{axis}_{keep}", [of("SplitToSequence", ["x"], ["y"], axis=axis, keepdims=keep)],
                       {"x": table}, [listed])
    graph_case("split_to_sequence_texts_sizes", [of("SplitToSequence", ["x", "n"], ["y"], axis=1)],
               {"x": table, "n": np.array([1, 2], np.int64)}, [listed])
    graph_case("split_to_sequence_texts_size", [of("SplitToSequence", ["x", "n"], ["s"], axis=1), of("SequenceAt", ["s", "at"], ["y"])],
               {"x": table, "n": np.array(2, np.int64), "at": at}, ["y"])
    branch = lambda name: helper.make_graph([of("SequenceInsert", ["s", name], [f"r{name}"])], name, [],
                                            [helper.make_tensor_sequence_value_info(f"r{name}", TensorProto.STRING, None)])
    for which in [True, False]:
        graph_case(f"sequence_texts_if_{which}".lower(), [built, of("If", ["which"], ["y"], then_branch=branch("a"), else_branch=branch("b"))],
                   {**three, "which": np.array(which)}, [listed])


def older():
    """Scan of opset 8, over a batch of sequences."""
    of, tensor = helper.make_node, helper.make_tensor_value_info
    body = helper.make_graph(
        [of("Mul", ["s", "half"], ["kept"]), of("Add", ["kept", "x"], ["t"]), of("Sub", ["x", "kept"], ["y"])], "body",
        [tensor("s", TensorProto.FLOAT, [3]), tensor("x", TensorProto.FLOAT, [3])],
        [tensor("t", TensorProto.FLOAT, [3]), tensor("y", TensorProto.FLOAT, [3])],
        [numpy_helper.from_array(np.array(0.5, np.float32), "half")])
    feed = {"s0": f32(4, 3), "xs": f32(4, 6, 3)}
    lengths = np.array([6, 2, 1, 4], np.int64)
    for name, given in {"forward": {}, "reverse": {"directions": [1]}}.items():
        for lens in [False, True]:
            scan = of("Scan", ["n" if lens else "", "s0", "xs"], ["s", "y"], body=body, num_scan_inputs=1, **given)
            graph_case(f"scan_8_{name}{'_lengths' if lens else ''}", [scan], {**({"n": lengths} if lens else {}), **feed},
                       [tensor("s", TensorProto.FLOAT, [4, 3]), tensor("y", TensorProto.FLOAT, [4, 6, 3])], opset=8)
    two = helper.make_graph(
        [of("Add", ["s", "x"], ["t"]), of("MatMul", ["x", "z"], ["y"])], "two",
        [tensor("s", TensorProto.FLOAT, [2]), tensor("x", TensorProto.FLOAT, [2]), tensor("z", TensorProto.FLOAT, [2, 2])],
        [tensor("t", TensorProto.FLOAT, [2]), tensor("y", TensorProto.FLOAT, [2])])
    scan = of("Scan", ["n", "s0", "xs", "zs"], ["s", "y"], body=two, num_scan_inputs=2, directions=[0, 1])
    graph_case("scan_8_two_sequences", [scan],
               {"n": np.array([3, 5], np.int64), "s0": f32(2, 2), "xs": f32(2, 5, 2), "zs": f32(2, 5, 2, 2)},
               [tensor("s", TensorProto.FLOAT, [2, 2]), tensor("y", TensorProto.FLOAT, [2, 5, 2])], opset=8)


TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]
INPUT_TYPES = [np.float32, np.float64, np.int32, np.int64]


def features():
    x = f32(5, 4)
    for dtype in INPUT_TYPES:
        t = np.dtype(dtype).name
        node(f"scaler_{t}", "Scaler", [x.astype(dtype)], offset=floats(4), scale=floats(4))
        for norm in ["MAX", "L1", "L2"]:
            rows = x.astype(dtype)
            rows[1] = 0
            node(f"normalizer_{norm.lower()}_{t}", "Normalizer", [rows], norm=norm)
        if dtype in (np.float32, np.float64):
            node(f"binarizer_{t}", "Binarizer", [x.astype(dtype)], threshold=0.25)
        node(f"array_feature_extractor_{t}", "ArrayFeatureExtractor",
             [x.astype(dtype), np.array([3, 0, 3], np.int64)])
    node("scaler_one", "Scaler", [x], offset=[0.5], scale=[3.0])
    node("array_feature_extractor_text", "ArrayFeatureExtractor",
         [texts("one", "three", ""), np.array([2, 0, 1, 1], np.int64)])
    node("normalizer_vector", "Normalizer", [f32(6)], norm="L2")
    gaps = f32(5, 3)
    gaps[RNG.random((5, 3)) < 0.4] = np.nan
    node("imputer_nan", "Imputer", [gaps], imputed_value_floats=[1.0, 2.0, 3.0],
         replaced_value_float=float("nan"))
    node("imputer_one", "Imputer", [np.round(f32(5, 3))], imputed_value_floats=[7.5],
         replaced_value_float=1.0)
    node("imputer_int64", "Imputer", [RNG.integers(0, 3, (5, 3))],
         imputed_value_int64s=[10, 11, 1 << 40], replaced_value_int64=1)
    node("feature_vectorizer", "FeatureVectorizer",
         [f32(4, 3)], inputdimensions=[3])
    node("feature_vectorizer_cut_and_filled", "FeatureVectorizer",
         [f32(4, 3), f32(4, 2), f32(4, 5)], inputdimensions=[2, 4, 5])


def linear():
    for post in TRANSFORMS:
        p = post.lower()
        x = f32(6, 3)
        node(f"linear_regressor_{p}", "LinearRegressor", [x], coefficients=floats(2, 3),
             intercepts=floats(2), targets=2, post_transform=post)
        node(f"linear_regressor_one_{p}", "LinearRegressor", [x], coefficients=floats(3),
             intercepts=[0.5], post_transform=post)
        node(f"linear_classifier_{p}", "LinearClassifier", [x], 2, coefficients=floats(4, 3),
             intercepts=floats(4), classlabels_ints=[3, 1, 8, -2], post_transform=post)
        if post != "PROBIT":
            node(f"linear_classifier_one_score_{p}", "LinearClassifier", [x], 2,
                 coefficients=floats(3), intercepts=[0.25], classlabels_ints=[3, 1],
                 post_transform=post)
    for dtype in INPUT_TYPES:
        t = np.dtype(dtype).name
        node(f"linear_classifier_{t}", "LinearClassifier", [f32(6, 3).astype(dtype)], 2,
             coefficients=floats(2, 3), intercepts=floats(2), classlabels_strings=["no", "certainly"])


def machines():
    kernels = {"LINEAR": [0.0, 0.0, 0.0], "POLY": [0.25, 0.5, 3.0], "RBF": [0.125, 0.0, 0.0],
               "SIGMOID": [0.125, 0.25, 0.0]}
    for kernel, params in kernels.items():
        k = kernel.lower()
        x = f32(6, 3)
        node(f"svm_regressor_{k}", "SVMRegressor", [x], coefficients=floats(4),
             support_vectors=floats(4, 3), n_supports=4, rho=[0.375], kernel_type=kernel,
             kernel_params=params)
        node(f"svm_classifier_{k}", "SVMClassifier", [x], 2, coefficients=floats(2, 6),
             support_vectors=floats(6, 3), vectors_per_class=[2, 3, 1], rho=floats(3),
             kernel_type=kernel, kernel_params=params, classlabels_ints=[4, 2, 9])
    node("svm_classifier_poly_2", "SVMClassifier", [f32(6, 3)], 2, coefficients=floats(4),
         support_vectors=floats(4, 3), vectors_per_class=[2, 2], rho=[0.25], kernel_type="POLY",
         kernel_params=[0.5, 0.25, 2.0], classlabels_ints=[4, 2])
    node("svm_regressor_one_class", "SVMRegressor", [f32(6, 3)], coefficients=floats(4),
         support_vectors=floats(4, 3), n_supports=4, rho=[0.125], kernel_type="RBF",
         kernel_params=kernels["RBF"], one_class=1)
    node("svm_regressor_without_vectors", "SVMRegressor", [f32(6, 3)], coefficients=floats(3),
         rho=[0.125], kernel_params=[0.0, 0.0, 0.0])
    for post in TRANSFORMS:
        p = post.lower()
        two = dict(support_vectors=floats(4, 3), vectors_per_class=[2, 2], rho=[0.25],
                   kernel_type="RBF", kernel_params=kernels["RBF"], classlabels_ints=[4, 2])
        if post != "PROBIT":
            node(f"svm_classifier_two_{p}", "SVMClassifier", [f32(6, 3)], 2, coefficients=floats(4),
                 post_transform=post, **two)
        node(f"svm_classifier_two_proba_{p}", "SVMClassifier", [f32(6, 3)], 2,
             coefficients=floats(4), prob_a=[-1.5], prob_b=[0.25], post_transform=post, **two)
        node(f"svm_classifier_linear_{p}", "SVMClassifier", [f32(6, 3)], 2,
             coefficients=floats(3, 3), rho=[0.25], kernel_params=[0.0, 0.0, 0.0],
             classlabels_ints=[4, 2, 7], post_transform=post)
    for signs, name in [(1, "positive"), (-1, "mixed")]:
        weights = np.abs(f32(2, 3)) * np.array([[1], [signs]])
        node(f"svm_classifier_linear_two_{name}", "SVMClassifier", [f32(9, 3)], 2,
             coefficients=[float(v) for v in weights.ravel()], rho=[0.25],
             kernel_params=[0.0, 0.0, 0.0], classlabels_ints=[4, 2])
    for classes in [3, 5, 11]:
        pairs = classes * (classes - 1) // 2
        node(f"svm_classifier_proba_{classes}", "SVMClassifier", [f32(17, 3)], 2,
             coefficients=floats(classes - 1, 2 * classes), support_vectors=floats(2 * classes, 3),
             vectors_per_class=[2] * classes, rho=floats(pairs), kernel_type="RBF",
             kernel_params=kernels["RBF"], prob_a=[-1.0 - abs(v) for v in floats(pairs)],
             prob_b=floats(pairs), classlabels_strings=[f"class {c}" for c in range(classes)])


TESTS = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def forest(prefix, ids, trees=3, depth=3, width=3, low=-8, leaf_ids=None, tests=TESTS):
    """Attributes of full trees whose leaves weigh the given targets or classes."""
    nodes = {k: [] for k in ["treeids", "nodeids", "featureids", "values", "modes", "truenodeids",
                             "falsenodeids", "missing_value_tracks_true"]}
    leaves = {k: [] for k in ["treeids", "nodeids", "ids", "weights"]}

    def grow(tree, counter, depth):
        at = counter[0]
        counter[0] += 1
        place = len(nodes["treeids"])
        for key in nodes:
            nodes[key].append(0)
        nodes["treeids"][place], nodes["nodeids"][place] = tree, at
        nodes["values"][place] = float(RNG.integers(-16, 17)) / 8
        if depth == 0:
            nodes["modes"][place] = "LEAF"
            for i in ids:
                leaves["treeids"].append(tree)
                leaves["nodeids"].append(at)
                leaves["ids"].append(i)
                leaves["weights"].append(float(RNG.integers(low, 9)) / 16)
            return at
        nodes["modes"][place] = tests[RNG.integers(len(tests))]
        nodes["featureids"][place] = int(RNG.integers(width))
        nodes["missing_value_tracks_true"][place] = int(RNG.integers(2))
        nodes["truenodeids"][place] = grow(tree, counter, depth - 1)
        nodes["falsenodeids"][place] = grow(tree, counter, depth - 1)
        return at

    for tree in range(trees):
        grow(tree, [0], depth)
    made = {f"nodes_{k}": v for k, v in nodes.items()}
    made.update({f"{prefix}_{k}": v for k, v in leaves.items()})
    return made


def trees():
    gaps = f32(12, 3)
    gaps[RNG.random((12, 3)) < 0.2] = np.nan
    for post in TRANSFORMS:
        p = post.lower()
        node(f"tree_regressor_{p}", "TreeEnsembleRegressor", [gaps], n_targets=2,
             post_transform=post, base_values=[0.25, 0.5], **forest("target", [0, 1], low=0))
        node(f"tree_regressor_one_{p}", "TreeEnsembleRegressor", [gaps], n_targets=1,
             post_transform=post, **forest("target", [0], trees=1, low=1))
        node(f"tree_classifier_{p}", "TreeEnsembleClassifier", [gaps], 2,
             classlabels_int64s=[7, 5, 9], post_transform=post, **forest("class", [0, 1, 2], low=0))
        if post != "PROBIT":
            for low in [0, -8]:
                for base in [[], [0.125]]:
                    sign = "positive" if low == 0 else "mixed"
                    given = {"base_values": base} if base else {}
                    node(f"tree_classifier_one_score_{sign}_{len(base)}_{p}",
                         "TreeEnsembleClassifier", [gaps], 2, classlabels_int64s=[7, 5],
                         post_transform=post, **given, **forest("class", [0], low=low))
        node(f"tree_classifier_second_class_{p}", "TreeEnsembleClassifier", [gaps], 2,
             classlabels_int64s=[7, 5], post_transform=post, **forest("class", [1], trees=1, low=1))
    for how in ["SUM", "AVERAGE", "MIN", "MAX"]:
        node(f"tree_regressor_{how.lower()}", "TreeEnsembleRegressor", [gaps], n_targets=2,
             aggregate_function=how, **forest("target", [0, 1]))
    for dtype in INPUT_TYPES:
        rows = np.nan_to_num(gaps).astype(dtype)
        node(f"tree_classifier_{np.dtype(dtype).name}", "TreeEnsembleClassifier", [rows], 2,
             classlabels_strings=["x", "longer", "z"], **forest("class", [0, 1, 2], tests=["BRANCH_LEQ"]))
    node("tree_classifier_unused_class", "TreeEnsembleClassifier", [gaps], 2,
         classlabels_int64s=[7, 5, 9], **forest("class", [0, 1], trees=1, low=-8))
    node("tree_regressor_large", "TreeEnsembleRegressor", [gaps], n_targets=1,
         **forest("target", [0], trees=20, depth=8))
    node("tree_regressor_deep", "TreeEnsembleRegressor", [f32(5, 3)], n_targets=1, **chain(90))
    wide = forest("target", [0, 1])
    weights = np.array(wide.pop("target_weights"), np.float64) / 3
    values = np.array(wide.pop("nodes_values"), np.float64) / 3
    node("tree_regressor_double", "TreeEnsembleRegressor", [gaps.astype(np.float64) / 3],
         n_targets=2, nodes_values_as_tensor=numpy_helper.from_array(values),
         target_weights_as_tensor=numpy_helper.from_array(weights), **wide)


def chain(depth):
    """One tree in which every test leads to a leaf and to the next test."""
    count = 2 * depth + 1
    inner = [i % 2 == 0 and i < 2 * depth for i in range(count)]
    return dict(
        nodes_treeids=[0] * count, nodes_nodeids=list(range(count)),
        nodes_featureids=[i % 3 for i in range(count)],
        nodes_values=[float(i) / depth - 1 for i in range(count)],
        nodes_modes=["BRANCH_LEQ" if i else "LEAF" for i in inner],
        nodes_truenodeids=[i + 2 if is_test else 0 for i, is_test in enumerate(inner)],
        nodes_falsenodeids=[i + 1 if is_test else 0 for i, is_test in enumerate(inner)],
        target_treeids=[0] * (depth + 1), target_ids=[0] * (depth + 1),
        target_nodeids=[i for i in range(count) if not inner[i]],
        target_weights=[float(i) for i in range(depth + 1)])


def labels():
    words = ["a", "bc", "", "über", "bcd", "b"]
    node("label_encoder_ints", "LabelEncoder", [RNG.integers(-3, 9, (4, 3))],
         keys_int64s=[5, -2, 7, 0, 1], values_int64s=[50, -20, 70, 1, 10], default_int64=-7)
    node("label_encoder_int_text", "LabelEncoder", [RNG.integers(0, 8, (4, 3))],
         keys_int64s=[5, 2, 7, 0], values_strings=words[:4], default_string="none of them")
    node("label_encoder_text_int", "LabelEncoder", [texts("a", "b", "bc", "bcd", "bcde", "", "x")],
         keys_strings=words, values_int64s=list(range(10, 16)))
    node("label_encoder_text_float", "LabelEncoder", [texts("über", "uber", "bc")],
         keys_strings=words, values_floats=floats(6), default_float=0.5)
    node("label_encoder_text_text", "LabelEncoder", [texts("b", "a", "nothing")],
         keys_strings=["b", "a"], values_strings=["a long value", "c"])
    node("label_encoder_float_int", "LabelEncoder",
         [np.array([0.5, -0.0, np.nan, 2.0, 0.25], np.float32)],
         keys_floats=[0.5, 0.0, 2.0], values_int64s=[5, 0, 2])
    node("label_encoder_float_text", "LabelEncoder", [np.array([0.5, 1.5], np.float32)],
         keys_floats=[0.5, 0.0, 2.0], values_strings=["half", "zero", "two"])
    node("label_encoder_float_float", "LabelEncoder", [f32(3, 3)],
         keys_floats=[0.5, -1.0, 2.0, 0.125], values_floats=[1.0, 2.0, 3.0, 4.0])
    node("label_encoder_nan_key", "LabelEncoder", [np.array([np.nan, 1.0, 3.0], np.float32)],
         keys_floats=[1.0, float("nan")], values_floats=[10.0, 20.0], opset=4)
    node("label_encoder_opset_1_text", "LabelEncoder", [texts("b", "a", "c")], opset=1,
         classes_strings=["a", "b"], default_int64=-5)
    node("label_encoder_opset_1_int", "LabelEncoder", [np.array([1, 0, 2])], opset=1,
         classes_strings=["a", "b"], default_string="?")
    many = [int(v) for v in RNG.permutation(1000)[:300]]
    node("label_encoder_many", "LabelEncoder", [RNG.integers(0, 1000, 400)], keys_int64s=many,
         values_int64s=[v * v for v in many])
    spelled = [f"word {v}" for v in many]
    node("label_encoder_many_texts", "LabelEncoder",
         [texts(*[f"word {v}" for v in RNG.integers(0, 1000, 200)])], keys_strings=spelled,
         values_int64s=many)
    for dtype in [np.int64, np.float32, np.float64]:
        node(f"one_hot_encoder_{np.dtype(dtype).name}", "OneHotEncoder",
             [RNG.integers(0, 6, (4, 2)).astype(dtype)], cats_int64s=[4, 1, 2])
    node("one_hot_encoder_texts", "OneHotEncoder", [texts("b", "x", "a", "")],
         cats_strings=["a", "b", "c"])
    node("one_hot_encoder_all_known", "OneHotEncoder", [texts("b", "a")], cats_strings=["a", "b"],
         zeros=0)


def vectorizers():
    pool = dict(min_gram_length=1, max_gram_length=2, ngram_counts=[0, 3], ngram_indexes=[0, 1, 2, 3, 4])
    weights = [0.5, 1.5, 2.0, 0.25, 3.0]
    ints, words = [2, 3, 5, 2, 3, 5, 5], ["a", "bc", "", "a", "bc", "", ""]
    for mode in ["TF", "IDF", "TFIDF"]:
        for skip in [0, 2]:
            node(f"tfidf_ints_{mode.lower()}_{skip}", "TfIdfVectorizer",
                 [RNG.choice([2, 3, 5, 7], (4, 9)).astype(np.int64)], domain="", pool_int64s=ints, mode=mode,
                 weights=weights, max_skip_count=skip, **pool)
            node(f"tfidf_texts_{mode.lower()}_{skip}", "TfIdfVectorizer",
                 [texts(*RNG.choice(["a", "bc", "", "x"], 9))], domain="", pool_strings=words, mode=mode,
                 weights=weights, max_skip_count=skip, **pool)


def strings():
    """Strings and numbers, in the default domain. ONNX Runtime writes all floats with eight digits."""
    plain = dict(domain="", default_opset=21)
    edge = np.array([1, 0.1, -0.0, 1e10, 123456789, 1e-5, 3.1415927, np.nan, np.inf, -np.inf, 1e38, 1e-45,
                     99999999, 999999999], np.float32)
    wide = [0, -1, 1 << 40, np.iinfo(np.int64).min, np.iinfo(np.int64).max]
    numbers = {"float32": edge, "float64": edge.astype(np.float64) / 3, "float16": f32(3, 2).astype(np.float16),
               "bool": np.array([True, False]), "int8": np.array([[-128, 127, 0]], np.int8),
               "int64": np.array(wide, np.int64), "uint64": np.array([0, (1 << 64) - 1], np.uint64)}
    for name, x in numbers.items():
        node(f"cast_{name}_to_text", "Cast", [x], to=TensorProto.STRING, **plain)
        node(f"cast_like_{name}_to_text", "CastLike", [x, texts("a")], **plain)
        spelled = texts("1", " 2 ", "+4", "0", "127")
        node(f"cast_text_to_{name}", "Cast", [spelled], to=helper.np_dtype_to_tensor_dtype(x.dtype), **plain)
        node(f"cast_like_text_to_{name}", "CastLike", [spelled, x], **plain)
    spelled = texts("-5.25", "1e3", "INF", "+inf", "-Infinity", "nAn", ".5", "5.", "1e-46", "-0", "16777217")
    for kind in ["FLOAT", "DOUBLE", "FLOAT16"]:
        node(f"cast_floating_text_to_{kind.lower()}", "Cast", [spelled], to=TensorProto.DataType.Value(kind), **plain)
    node("cast_text_to_text", "Cast", [texts("a", "")], to=TensorProto.STRING, **plain)
    lines = np.array([["a b", " a  b c ", ""], ["a,,b,", ",", "\u00e9,\u00e8 \U0001f600"]], dtype=object)
    for name, given in {"space": {}, "comma": {"delimiter": ","}, "once": {"maxsplit": 1},
                        "never": {"maxsplit": 0}, "comma_once": {"delimiter": ",", "maxsplit": 1},
                        "two": {"delimiter": ",,"}}.items():
        node(f"string_split_{name}", "StringSplit", [lines], 2, **given, **plain)
    node("string_split_scalar", "StringSplit", [np.array("a b", dtype=object)], 2, **plain)
    mapped = dict(cats_int64s=[5, -2, 0], cats_strings=["a", "long", ""], opset=1)
    node("category_mapper_text_int", "CategoryMapper", [texts("long", "b", "", "a")], default_int64=9, **mapped)
    node("category_mapper_int_text", "CategoryMapper", [np.array([[0, 5], [-2, 7]], np.int64)],
         default_string="other", **mapped)
    words = np.array([["12", "\u00e9", "a\n"], ["a.b", "ab", ""], ["a", "\u0661", "Ab"]], dtype=object)
    for at, pattern in enumerate([r"\d+", r"\w*", ".", "(?i)ab", "a|ab", "[[:alpha:]]+", r"\S\D?$", "(?s)a.",
                                  "(?P<name>a)(?:b)?", "[^a]*"]):
        node(f"regex_full_match_{at}", "RegexFullMatch", [words], pattern=pattern, **plain)


def tokens():
    lines = np.array([["a b  c,d", "\u00e9,\u00e8 \U0001f600 long"], ["", " x "]], dtype=object)
    empty = np.array(["", ""], dtype=object)
    rules = {"characters": dict(separators=[""]), "dots": dict(tokenexp="."),
             "separators": dict(separators=[" ", ",", "b|x"]), "words": dict(tokenexp=r"[^\s,]+")}
    for name, rule in rules.items():
        for mark in (0, 1):
            given = dict(mark=mark, mincharnum=1, pad_value="--", domain="com.microsoft", **rule)
            node(f"tokenizer_{name}_{mark}", "Tokenizer", [lines], **given)
            node(f"tokenizer_{name}_{mark}_row", "Tokenizer", [lines[0]], **given)
            node(f"tokenizer_{name}_{mark}_empty", "Tokenizer", [empty], **given)
        if name in ("separators", "words"):
            node(f"tokenizer_{name}_long", "Tokenizer", [lines], domain="com.microsoft", **rule, mark=1,
                 mincharnum=2, pad_value="#")


def models():
    """One model for each family of skl2onnx's converters."""
    from sklearn import (
        calibration, cluster, compose, decomposition, discriminant_analysis, ensemble, feature_extraction,
        feature_selection, gaussian_process, impute, linear_model, mixture, multiclass, multioutput, naive_bayes, neighbors, neural_network, pipeline,
        preprocessing, random_projection, svm, tree)
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType

    # skl2onnx's converter of HistGradientBoosting passes booleans and integers of NumPy in lists, which onnx refuses.
    make_attribute = helper.make_attribute
    scalar = lambda v: int(v) if isinstance(v, (bool, np.bool_, np.integer)) else v
    helper.make_attribute = lambda key, value, *args, **named: make_attribute(
        key, [scalar(v) for v in value] if isinstance(value, list) else value, *args, **named)

    x = RNG.standard_normal((60, 4)).astype(np.float32)
    classes = (x[:, 0] + 0.5 * x[:, 1] > 0.3).astype(np.int64) + (x[:, 2] > 0.4)
    two, names = (classes > 0).astype(np.int64), np.array(["setosa", "lily", "oak"])[classes]
    target = x[:, 0] * 2 - x[:, 3] + 0.5
    targets = np.stack([target, x[:, 1]], axis=1)
    counts = np.abs(np.round(x * 3)).astype(np.float32)

    def model(name, estimator, y=None, rows=x, options=None, types=None, feed=None):
        fitted = estimator.fit(rows, y) if y is not None else estimator.fit(rows)
        types = types or [("X", FloatTensorType([None, rows.shape[1]]))]
        feed = feed if feed is not None else {"X": rows[:11]}
        made = to_onnx(fitted, initial_types=types, target_opset={"": 18, ML: 3},
                       options={id(fitted): options} if options else None)
        Case(f"skl_{name}", made, feed)

    plain = {"zipmap": False}
    for name, estimator in {
        "logistic_regression": linear_model.LogisticRegression(),
        "sgd_classifier": linear_model.SGDClassifier(loss="log_loss", random_state=0),
        "linear_svc": svm.LinearSVC(random_state=0),
        "svc": svm.SVC(),
        "svc_probability": svm.SVC(probability=True, random_state=0),
        "nu_svc": svm.NuSVC(nu=0.1, kernel="poly"),
        "decision_tree_classifier": tree.DecisionTreeClassifier(max_depth=4, random_state=0),
        "random_forest_classifier": ensemble.RandomForestClassifier(5, max_depth=4, random_state=0),
        "extra_trees_classifier": ensemble.ExtraTreesClassifier(5, max_depth=4, random_state=0),
        "gradient_boosting_classifier": ensemble.GradientBoostingClassifier(n_estimators=4, random_state=0),
        "hist_gradient_boosting_classifier": ensemble.HistGradientBoostingClassifier(max_iter=4, random_state=0),
        "ada_boost_classifier": ensemble.AdaBoostClassifier(n_estimators=3, random_state=0),
        "bagging_classifier": ensemble.BaggingClassifier(n_estimators=3, random_state=0),
        "voting_classifier": ensemble.VotingClassifier(
            [("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=2, random_state=0))],
            voting="soft", flatten_transform=False),
        "stacking_classifier": ensemble.StackingClassifier(
            [("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=2, random_state=0))]),
        "k_neighbors_classifier": neighbors.KNeighborsClassifier(3),
        "gaussian_nb": naive_bayes.GaussianNB(),
        "mlp_classifier": neural_network.MLPClassifier(hidden_layer_sizes=(5,), max_iter=30, random_state=0),
        "linear_discriminant_analysis": discriminant_analysis.LinearDiscriminantAnalysis(),
        "quadratic_discriminant_analysis": discriminant_analysis.QuadraticDiscriminantAnalysis(),
        "one_vs_rest": multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
        "one_vs_one": multiclass.OneVsOneClassifier(linear_model.LogisticRegression()),
        "calibrated_classifier": calibration.CalibratedClassifierCV(linear_model.LogisticRegression(), cv=2),
    }.items():
        for kind, y in [("ints", classes), ("two", two), ("texts", names)]:
            scores = plain if hasattr(estimator, "predict_proba") else None
            attempt(model, f"{name}_{kind}", estimator, y, options=scores)
    for name, estimator in {"multinomial_nb": naive_bayes.MultinomialNB(),
                            "bernoulli_nb": naive_bayes.BernoulliNB(),
                            "complement_nb": naive_bayes.ComplementNB()}.items():
        attempt(model, name, estimator, classes, rows=counts, options=plain)
    for name, estimator in {
        "linear_regression": linear_model.LinearRegression(),
        "ridge": linear_model.Ridge(),
        "svr": svm.SVR(),
        "nu_svr": svm.NuSVR(kernel="sigmoid"),
        "decision_tree_regressor": tree.DecisionTreeRegressor(max_depth=4, random_state=0),
        "random_forest_regressor": ensemble.RandomForestRegressor(5, max_depth=4, random_state=0),
        "gradient_boosting_regressor": ensemble.GradientBoostingRegressor(n_estimators=4, random_state=0),
        "hist_gradient_boosting_regressor": ensemble.HistGradientBoostingRegressor(max_iter=4, random_state=0),
        "ada_boost_regressor": ensemble.AdaBoostRegressor(n_estimators=3, random_state=0),
        "bagging_regressor": ensemble.BaggingRegressor(n_estimators=3, random_state=0),
        "voting_regressor": ensemble.VotingRegressor([("a", linear_model.LinearRegression()), ("b", linear_model.Ridge())]),
        "k_neighbors_regressor": neighbors.KNeighborsRegressor(3),
        "mlp_regressor": neural_network.MLPRegressor(hidden_layer_sizes=(5,), max_iter=30, random_state=0),
        "gaussian_process_regressor": gaussian_process.GaussianProcessRegressor(),
        "ransac": linear_model.RANSACRegressor(random_state=0),
        "poisson_regressor": linear_model.PoissonRegressor(),
    }.items():
        attempt(model, name, estimator, np.abs(target) if name == "poisson_regressor" else target)
    attempt(model, "multi_output_regressor", multioutput.MultiOutputRegressor(linear_model.Ridge()), targets)
    attempt(model, "multi_output_classifier", multioutput.MultiOutputClassifier(linear_model.LogisticRegression()),
            np.stack([classes, two], axis=1), options=plain)
    gaps = x.copy()
    gaps[RNG.random(x.shape) < 0.2] = np.nan
    for name, (estimator, rows) in {
        "standard_scaler": (preprocessing.StandardScaler(), x),
        "min_max_scaler": (preprocessing.MinMaxScaler(), x),
        "max_abs_scaler": (preprocessing.MaxAbsScaler(), x),
        "robust_scaler": (preprocessing.RobustScaler(), x),
        "normalizer": (preprocessing.Normalizer("l1"), x),
        "binarizer": (preprocessing.Binarizer(threshold=0.3), x),
        "polynomial_features": (preprocessing.PolynomialFeatures(2), x),
        "k_bins_discretizer": (preprocessing.KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf"), x),
        "power_transformer": (preprocessing.PowerTransformer(), x),
        "simple_imputer": (impute.SimpleImputer(), gaps),
        "knn_imputer": (impute.KNNImputer(n_neighbors=2), gaps),
        "pca": (decomposition.PCA(2), x),
        "truncated_svd": (decomposition.TruncatedSVD(2, random_state=0), x),
        "kernel_pca": (decomposition.KernelPCA(2, kernel="rbf"), x),
        "k_means": (cluster.KMeans(3, n_init=1, random_state=0), x),
        "gaussian_mixture": (mixture.GaussianMixture(2, random_state=0), x),
        "isolation_forest": (ensemble.IsolationForest(n_estimators=5, random_state=0), x),
        "one_class_svm": (svm.OneClassSVM(nu=0.3), x),
        "variance_threshold": (feature_selection.VarianceThreshold(0.5), x),
        "random_projection": (random_projection.GaussianRandomProjection(2, random_state=0), x),
        "local_outlier_factor": (neighbors.LocalOutlierFactor(5, novelty=True), x),
    }.items():
        attempt(model, name, estimator, rows=rows)
    attempt(model, "select_k_best", feature_selection.SelectKBest(k=2), classes)
    words = np.array([["red", "s"], ["blue", "m"], ["green", "l"], ["red", "xl"]], dtype=object)
    seen = np.array([["blue", "s"], ["red", "xl"], ["green", "m"]], dtype=object)
    types = [("X", StringTensorType([None, 2]))]
    attempt(model, "one_hot_encoder_texts", preprocessing.OneHotEncoder(sparse_output=False), rows=words,
            types=types, feed={"X": seen})
    attempt(model, "ordinal_encoder_texts", preprocessing.OrdinalEncoder(), rows=words, types=types,
            feed={"X": seen})
    attempt(model, "ordinal_encoder", preprocessing.OrdinalEncoder(), rows=counts, feed={"X": counts[:9]})
    attempt(model, "one_hot_encoder_ints", preprocessing.OneHotEncoder(sparse_output=False),
            rows=counts.astype(np.int64), types=[("X", Int64TensorType([None, 4]))],
            feed={"X": counts[:9].astype(np.int64)})
    from skl2onnx.common.data_types import DictionaryType
    fruit = [{"apple": 1.0, "pear": 2.5}, {"plum": -1.0}, {"apple": 4.0, "plum": 0.5}]
    for name, estimator in {
        "dict_vectorizer": feature_extraction.DictVectorizer(sparse=False),
        "dict_vectorizer_pipeline": pipeline.make_pipeline(
            feature_extraction.DictVectorizer(sparse=False), linear_model.LogisticRegression()),
    }.items():
        attempt(model, name, estimator, [0, 1, 1], rows=fruit,
                types=[("X", DictionaryType(StringTensorType([1]), FloatTensorType([1])))], feed={"X": fruit[2]})
    attempt(model, "pipeline", pipeline.make_pipeline(
        preprocessing.StandardScaler(), decomposition.PCA(3), linear_model.LogisticRegression()), names)
    attempt(model, "column_transformer", compose.ColumnTransformer(
        [("a", preprocessing.StandardScaler(), [0, 1]), ("b", preprocessing.MinMaxScaler(), [2, 3])]))


def attempt(model, name, *args, **kwargs):
    """A converter that fails has no case; which ones do is printed."""
    try:
        model(name, *args, **kwargs)
    except Exception as error:
        print(f"no case skl_{name}: {str(error).splitlines()[0][:150]}", file=sys.stderr)


def run(case):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        case.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed = {i.name: case.feed[i.name] for i in session.get_inputs()}
    return feed, session.run(None, feed)


def save(path, value):
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        made = numpy_helper.from_list(value)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        made = onnx.SequenceProto(elem_type=onnx.SequenceProto.MAP)
        made.map_values.extend(map_of(entries) for entries in value)
    elif isinstance(value, dict):
        made = map_of(value)
    else:
        made = numpy_helper.from_array(np.asarray(value))
    with open(path, "wb") as file:
        file.write(made.SerializeToString())


def map_of(entries):
    made = onnx.MapProto()
    if isinstance(next(iter(entries)), str):
        made.key_type = TensorProto.STRING
        made.string_keys.extend(key.encode() for key in entries)
    else:
        made.key_type = TensorProto.INT64
        made.keys.extend(entries)
    made.values.elem_type = onnx.SequenceProto.TENSOR
    made.values.tensor_values.extend(
        numpy_helper.from_array(np.array(v, np.float32)) for v in entries.values())
    return made


def main(folder):
    warnings.filterwarnings("ignore")
    features()
    linear()
    machines()
    trees()
    labels()
    vectorizers()
    models()
    strings()
    tokens()
    maps()
    sequences()
    older()
    if os.path.isdir(folder):
        shutil.rmtree(folder)
    written = 0
    for case in CASES:
        try:
            feed, results = run(case)
        except Exception as error:
            print(f"ONNX Runtime refuses {case.name}: {str(error)[:150]}", file=sys.stderr)
            continue
        if any(isinstance(v, list) and v and isinstance(v[0], list) for v in results):
            print(f"no case {case.name}: sequences of sequences", file=sys.stderr)
            continue
        data = os.path.join(folder, case.name, "test_data_set_0")
        os.makedirs(data)
        onnx.save(case.model, os.path.join(folder, case.name, "model.onnx"))
        for i, array in enumerate(feed.values()):
            save(os.path.join(data, f"input_{i}.pb"), array)
        for i, array in enumerate(results):
            save(os.path.join(data, f"output_{i}.pb"), array)
        written += 1
    print(f"{written} cases", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
