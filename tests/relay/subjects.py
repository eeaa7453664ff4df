"""Programs in Relay, each with the behaviour of a test of TVM's virtual machine, and calls of them."""

import numpy as np

import tree_lstm as lstm
from oracle_env import tvm
from tvm import relay
from tvm.relay.loops import while_loop
from tvm.relay.prelude import Prelude
from tvm.relay.scope_builder import ScopeBuilder

FOUND = []


class Subject:
    """A module, its calls, and how it is compiled."""

    def __init__(self, name, module, calls, params=None, late_bound=None):
        self.name, self.module, self.params, self.late_bound = name, module, params, late_bound
        self.calls = [call if isinstance(call, tuple) else ("main", call) for call in calls]


def subject(make):
    """Collects a function that returns a module, lists of arguments, and options of a Subject."""
    FOUND.append(make)
    return make


def all():
    made = []
    for make in FOUND:
        module, calls, *options = make()
        made.append(Subject(make.__name__, module, calls, **(options[0] if options else {})))
    return made


# --- words ----------------------------------------------------------------------------------


def floats(*shape, seed=0):
    return np.random.RandomState(seed).rand(*shape).astype("float32")


def int32(value):
    return np.array(value, dtype="int32")


def f32(value):
    return np.array(value, dtype="float32")


def of(params, body):
    return tvm.IRModule.from_expr(relay.Function(params, body))


def var(name, *shape, dtype="float32"):
    return relay.var(name, shape=shape, dtype=dtype)


def scalar(name, dtype="float32"):
    return relay.var(name, shape=(), dtype=dtype)


def prelude():
    module = tvm.IRModule()
    return module, Prelude(module)


def list_of(p, *values):
    _, cons, nil = p.mod.get_type("List")
    result = nil()
    for value in reversed(values):
        result = cons(relay.const(value), result)
    return result


def main_of(module, params, body):
    module["main"] = relay.Function(params, body)
    return relay.transform.InferType()(module)


# --- tensors, tuples, control flow ----------------------------------------------------------


@subject
def split():
    x = var("x", 12)
    return of([x], relay.split(x, 3, axis=0).astuple()), [[floats(12)]]


@subject
def split_no_fuse():
    x = var("x", 12)
    parts = relay.split(x, 3, axis=0).astuple()
    joined = relay.concatenate([relay.TupleGetItem(parts, 0)], axis=0)
    return of([x], relay.annotation.stop_fusion(joined)), [[floats(12)]]


@subject
def identity():
    x = var("x", 10, 10, dtype="float64")
    return of([x], x), [[floats(10, 10).astype("float64")]]


@subject
def operator():
    x = var("x", 10, 10)
    return of([x], x + x), [[floats(10, 10)]]


def all_equal(x, y):
    return relay.op.min(relay.op.nn.batch_flatten(relay.equal(x, y)), axis=[0, 1])


@subject
def condition():
    x, y = var("x", 10, 10), var("y", 10, 10)
    a, b = floats(10, 10), floats(10, 10, seed=1)
    return of([x, y], all_equal(x, y)), [[a, a], [a, b]]


@subject
def simple_if():
    x, y = var("x", 10, 10), var("y", 10, 10)
    a, b = floats(10, 10), floats(10, 10, seed=1)
    return of([x, y], relay.If(all_equal(x, y), x, y)), [[a, a], [a, b]]


@subject
def multiple_ifs():
    b = scalar("b", "bool")
    names = [relay.var(f"v{n}") for n in range(4)]
    body = relay.Tuple([names[2], names[3]])
    body = relay.Let(names[3], relay.If(b, names[1], names[0]), body)
    body = relay.Let(names[2], relay.If(b, names[0], names[1]), body)
    body = relay.Let(names[1], relay.Tuple([relay.const(1)]), body)
    body = relay.Let(names[0], relay.Tuple([relay.const(0)]), body)
    return of([b], body), [[np.array(False)], [np.array(True)]]


@subject
def unused_function():
    module = tvm.IRModule()
    for name, factor in [("times_2", 2.0), ("times_3", 3.0)]:
        v = var(f"v_{name}", 2, 2)
        body = relay.multiply(v, relay.const(factor))
        module[relay.GlobalVar(name)] = relay.Function([v], body, ret_type=relay.TensorType((2, 2)))
    x = var("x", 2, 2)
    two, three = (module.get_global_var(name) for name in ["times_2", "times_3"])
    return main_of(module, [x], relay.If(relay.const(True), two(x), three(x))), [[floats(2, 2)]]


@subject
def simple_call():
    module, same, i = tvm.IRModule(), relay.GlobalVar("same"), scalar("i", "int32")
    module[same] = relay.Function([i], i, ret_type=relay.TensorType((), "int32"))
    x = scalar("x", "int32")
    return main_of(module, [x], same(x)), [[int32(0)], [int32(-7)]]


@subject
def count_loop():
    module, sum_up, i = tvm.IRModule(), relay.GlobalVar("sum_up"), scalar("i", "int32")
    scope = ScopeBuilder()
    with scope.if_scope(relay.equal(i, relay.const(0))):
        scope.ret(i)
    with scope.else_scope():
        scope.ret(relay.add(sum_up(relay.subtract(i, relay.const(1))), i))
    module[sum_up] = relay.Function([i], scope.get(), ret_type=relay.TensorType((), "int32"))
    x = scalar("x", "int32")
    return main_of(module, [x], sum_up(x)), [[int32(n)] for n in (0, 1, 50)]


@subject
def sum_loop():
    module, sum_up = tvm.IRModule(), relay.GlobalVar("sum_up")
    i, total = scalar("i", "int32"), scalar("total", "int32")
    scope = ScopeBuilder()
    with scope.if_scope(relay.equal(i, relay.const(0))):
        scope.ret(total)
    with scope.else_scope():
        scope.ret(sum_up(relay.subtract(i, relay.const(1)), relay.add(total, i)))
    module[sum_up] = relay.Function([i, total], scope.get(), ret_type=relay.TensorType((), "int32"))
    x, y = scalar("x", "int32"), scalar("y", "int32")
    return main_of(module, [x, y], sum_up(x, y)), [[int32(n), int32(3)] for n in (0, 1, 50)]


@subject
def mutual_recursion():
    module = tvm.IRModule()
    even, odd = relay.GlobalVar("even"), relay.GlobalVar("odd")
    for name, other, at_zero in [(even, odd, True), (odd, even, False)]:
        i = scalar("i", "int32")
        rest = other(relay.subtract(i, relay.const(1)))
        body = relay.If(relay.equal(i, relay.const(0)), relay.const(at_zero), rest)
        module[name] = relay.Function([i], body, ret_type=relay.TensorType((), "bool"))
    x = scalar("x", "int32")
    return main_of(module, [x], even(x)), [[int32(n)] for n in (0, 7, 20)]


def two_tensors():
    return relay.TupleType([relay.TensorType((1,)), relay.TensorType((10,))])


@subject
def tuple_first():
    pair = relay.var("pair", type_annotation=two_tensors())
    return of([pair], relay.TupleGetItem(pair, 0)), [[(floats(1), floats(10))]]


@subject
def tuple_second():
    pair = relay.var("pair", type_annotation=two_tensors())
    return of([pair], relay.TupleGetItem(pair, 1)), [[(floats(1), floats(10))]]


@subject
def tuple_nested():
    inner = relay.TupleType([relay.TensorType((2,)), two_tensors()])
    pair = relay.var("pair", type_annotation=inner)
    swapped = relay.Tuple([relay.TupleGetItem(pair, 1), relay.TupleGetItem(pair, 0)])
    return of([pair], swapped), [[(floats(2), (floats(1), floats(10)))]]


@subject
def tuple_to_kernel():
    pair = relay.var(
        "pair", type_annotation=relay.TupleType([relay.TensorType((2, 3)), relay.TensorType((1, 3))])
    )
    return of([pair], relay.op._make.concatenate(pair, 0)), [[(floats(2, 3), floats(1, 3))]]


@subject
def let_tensor():
    scope, x = ScopeBuilder(), var("x", 1)
    scope.ret(scope.let("y", x) + relay.const(42.0))
    return of([x], scope.get()), [[floats(1)]]


@subject
def let_scalar():
    scope, x = ScopeBuilder(), scalar("x")
    scope.ret(scope.let("y", x) + relay.const(42.0))
    return of([x], scope.get()), [[f32(0.5)]]


@subject
def let_bound_constants():
    x = var("x", 2, dtype="int32")
    a, b = relay.var("a"), relay.var("b")
    body = relay.Let(b, relay.const(np.array([3, 4], "int32")), relay.Tuple([a, b, x]))
    body = relay.Let(a, relay.const(np.array([1, 2], "int32")), body)
    return of([x], body), [[np.array([7, 8], "int32")]]


# --- data types and closures ----------------------------------------------------------------


@subject
def list_constructor():
    module, p = prelude()
    return main_of(module, [], list_of(p, 3, 2, 1)), [[]]


@subject
def list_head():
    module, p = prelude()
    return main_of(module, [], module.get_global_var("hd")(list_of(p, 3, 2, 1))), [[]]


@subject
def list_tail():
    module, p = prelude()
    return main_of(module, [], module.get_global_var("tl")(list_of(p, 3, 2, 1))), [[]]


@subject
def list_tail_of_nothing():
    module, p = prelude()
    empty = p.mod.get_type("List")[2]()
    tail = module.get_global_var("tl")(empty)
    return main_of(module, [], tail), [[]]


@subject
def list_nth():
    module, p = prelude()
    nth = module.get_global_var("nth")
    return main_of(module, [], nth(list_of(p, 5, 6, 7), relay.const(2))), [[]]


@subject
def list_update():
    module, p = prelude()
    update = module.get_global_var("update")
    body = update(list_of(p, 5, 6, 7), relay.const(1), relay.const(-1))
    return main_of(module, [], body), [[]]


@subject
def list_length():
    module, p = prelude()
    return main_of(module, [], module.get_global_var("length")(list_of(p, *range(10)))), [[]]


def plus_one():
    v = scalar("v", "int32")
    return relay.Function([v], relay.add(v, relay.const(1)))


def plus():
    a, b = scalar("a", "int32"), scalar("b", "int32")
    return relay.Function([a, b], relay.add(relay.multiply(a, relay.const(2)), b))


@subject
def list_map():
    module, p = prelude()
    return main_of(module, [], module.get_global_var("map")(plus_one(), list_of(p, 1, 2, 3))), [[]]


@subject
def list_foldl():
    module, p = prelude()
    body = module.get_global_var("foldl")(plus(), relay.const(0), list_of(p, 3, 3, 3))
    return main_of(module, [], body), [[]]


@subject
def list_foldr():
    module, p = prelude()
    body = module.get_global_var("foldr")(plus(), relay.const(1), list_of(p, 1, 2, 3))
    return main_of(module, [], body), [[]]


@subject
def list_foldr_long():
    module, p = prelude()
    n = scalar("n", "int32")
    iota, _cons = relay.GlobalVar("iota"), p.mod.get_type("List")[1]
    i = scalar("i", "int32")
    rest = _cons(i, iota(relay.subtract(i, relay.const(1))))
    list_type = p.mod.get_type("List")[0](relay.TensorType((), "int32"))
    empty = p.mod.get_type("List")[2]()
    body = relay.If(relay.equal(i, relay.const(0)), empty, rest)
    module[iota] = relay.Function([i], body, ret_type=list_type)
    fold = module.get_global_var("foldr")(plus(), relay.const(1), iota(n))
    return main_of(module, [n], fold), [[int32(k)] for k in (0, 3, 200)]


@subject
def list_sum():
    module, p = prelude()
    return main_of(module, [], module.get_global_var("sum")(list_of(p, 7, 8, 9))), [[]]


@subject
def list_filter():
    module, p = prelude()
    v = scalar("v", "int32")
    above = relay.Function([v], relay.greater(v, relay.const(1)))
    body = module.get_global_var("filter")(above, list_of(p, 1, 5, 0, 3))
    return main_of(module, [], body), [[]]


@subject
def tree_of_data():
    module = tvm.IRModule()
    tree = relay.GlobalTypeVar("Tree2")
    leaf = relay.Constructor("Leaf2", [relay.TensorType((), "int32")], tree)
    node = relay.Constructor("Node2", [tree(), tree()], tree)
    module[tree] = relay.TypeData(tree, [], [leaf, node])
    total, t = relay.GlobalVar("total"), relay.var("t", tree())
    value, left, right = relay.var("value"), relay.var("left"), relay.var("right")
    body = relay.Match(
        t,
        [
            relay.Clause(relay.PatternConstructor(leaf, [relay.PatternVar(value)]), value),
            relay.Clause(
                relay.PatternConstructor(node, [relay.PatternVar(left), relay.PatternVar(right)]),
                relay.add(total(left), total(right)),
            ),
        ],
    )
    module[total] = relay.Function([t], body, ret_type=relay.TensorType((), "int32"))
    n = scalar("n", "int32")
    ends = [leaf(n), leaf(relay.const(2)), leaf(relay.const(3))]
    body = relay.Tuple([total(node(node(ends[0], ends[1]), ends[2])), node(ends[0], ends[1])])
    return main_of(module, [n], body), [[int32(5)], [int32(-5)]]


@subject
def optional_nested_match():
    module, p = prelude()
    _, some, none = p.mod.get_type("Option")
    x = scalar("x", "int32")
    v = relay.var("v")
    wrapped = relay.If(relay.greater(x, relay.const(0)), some(some(x)), some(none()))
    inner = relay.PatternConstructor(some, [relay.PatternVar(v)])
    body = relay.Match(
        wrapped,
        [
            relay.Clause(relay.PatternConstructor(some, [inner]), relay.add(v, relay.const(10))),
            relay.Clause(relay.PatternWildcard(), relay.const(-1)),
        ],
    )
    return main_of(module, [x], body), [[int32(3)], [int32(-3)]]


@subject
def compose():
    module, p = prelude()
    x, y = scalar("x"), scalar("y")
    add_one = relay.GlobalVar("add_one")
    module[add_one] = relay.Function([x], x + relay.const(1.0))
    scope = ScopeBuilder()
    twice = scope.let("twice", p.compose(add_one, add_one))
    scope.ret(twice(y))
    return main_of(module, [y], scope.get()), [[f32(0.25)]]


@subject
def closure():
    x, y = scalar("x"), scalar("y")
    outer = relay.Function([x], relay.Function([y], x + y))
    return of([], outer(relay.const(1.0))(relay.const(2.5))), [[]]


@subject
def closure_over_two():
    x, y, z = scalar("x"), scalar("y"), scalar("z")
    v = relay.var("v", shape=())
    inner = relay.Function([v], x - y * v)
    chosen = relay.If(relay.greater(x, y), inner, relay.Function([z], z))
    return of([x, y], chosen(relay.const(3.0))), [[f32(1), f32(2)], [f32(2), f32(1)]]


@subject
def loop_free_var():
    x, i, s = scalar("x", "int32"), scalar("i", "int32"), scalar("s", "int32")
    loop = while_loop(
        lambda i, _: i < relay.const(5), [i, s], lambda i, s: [i + relay.const(1), s + x]
    )
    body = relay.TupleGetItem(loop(relay.const(0), relay.zeros((), "int32")), 1)
    return of([x], body), [[int32(1)], [int32(4)]]


# --- element types and shapes ---------------------------------------------------------------


@subject
def add_scalars():
    x, y = scalar("x"), scalar("y")
    return of([x, y], x + y), [[f32(10), f32(1)]]


@subject
def add_float16():
    x, y = scalar("x", "float16"), scalar("y", "float16")
    return of([x, y], x + y), [[np.array(10, "float16"), np.array(0.5, "float16")]]


@subject
def add_int32():
    x, y = scalar("x", "int32"), scalar("y", "int32")
    return of([x, y], x + y), [[int32(10), int32(-11)]]


@subject
def add_tensors():
    x, y = var("x", 10, 5), var("y", 10, 5)
    return of([x, y], x + y), [[floats(10, 5), floats(10, 5, seed=1)]]


@subject
def add_broadcast():
    x, y = var("x", 10, 5), var("y", 1, 5)
    return of([x, y], x + y), [[floats(10, 5), floats(1, 5, seed=1)]]


@subject
def dynamic_add():
    x, y = relay.var("x", shape=(10, relay.Any())), relay.var("y", shape=(1, 5))
    return of([x, y], x + y), [[floats(10, 5), floats(1, 5)], [floats(10, 1), floats(1, 5)]]


@subject
def dynamic_broadcast():
    x, y = relay.var("x", shape=(relay.Any(), 2)), relay.var("y", shape=(3, 2))
    calls = [[floats(1, 2), floats(3, 2)], [floats(3, 2), floats(3, 2)], [floats(4, 2), floats(3, 2)]]
    return of([x, y], relay.add(x, y)), calls


@subject
def dynamic_relu():
    x = relay.var("x", shape=(relay.Any(), 3))
    body = relay.nn.relu(relay.add(x, relay.const(-0.5)))
    return of([x], body), [[floats(n, 3)] for n in (4, 1, 0)]


@subject
def shape_of():
    x = relay.var("x", shape=(relay.Any(), relay.Any(), relay.Any()))
    return of([x], relay.shape_of(relay.nn.relu(x), "int64")), [[floats(2, 3, 4)]]


@subject
def shape_of_as_int32():
    x = relay.var("x", shape=(relay.Any(), 3))
    return of([x], relay.shape_of(x, "int32")), [[floats(2, 3)]]


@subject
def reshape_static():
    x = var("x", 8, 8)
    return of([x], relay.reshape(relay.reshape(x, [-1, 4, 8]), [4, 16])), [[floats(8, 8)]]


@subject
def reshape_dynamic():
    x = relay.var("x", shape=(relay.Any(), 4))
    body = relay.exp(relay.reshape(relay.exp(x), [-1]))
    return of([x], body), [[floats(3, 4)], [floats(1, 4)]]


@subject
def reshape_to_input():
    x, y = relay.var("x", shape=(8, 8)), relay.var("y", shape=(2,), dtype="int32")
    calls = [[floats(8, 8), np.array(shape, "int32")] for shape in ([8, 8], [64, 1], [-1, 32])]
    return of([x, y], relay.reshape(x, y)), calls


@subject
def reshape_and_copy():
    x, y = relay.var("x", shape=(8, 8)), relay.var("y", shape=(1, 64))
    both = relay.concatenate([relay.reshape(x, [1, -1]), y], axis=0)
    return of([x, y], both), [[floats(8, 8), floats(1, 64)]]


@subject
def reshape_tuple():
    kind = relay.TupleType([relay.TensorType((1, 4, 2)), relay.TensorType((1, 2, 10))])
    pair = relay.var("pair", type_annotation=kind)
    body = relay.reshape(relay.TupleGetItem(pair, 0), (1, -1))
    return of([pair], body), [[(floats(1, 4, 2), floats(1, 2, 10))]]


@subject
def reshape_of_shape():
    x = relay.var("x", shape=(relay.Any(),))
    y = relay.reshape(x, relay.const(np.array([-1, 2], "int64")))
    return of([x], relay.shape_of(y, "int64")), [[floats(8)]]


@subject
def shape_functions_nested():
    data = relay.var("data", shape=(relay.Any(), 16))
    weight = relay.var("weight", shape=(16, 16))
    y = relay.sigmoid(relay.nn.dense(data, weight))
    z = relay.tanh(relay.nn.dense(y, weight))
    return of([data, weight], y + z), [[floats(3, 16), floats(16, 16)], [floats(1, 16), floats(16, 16)]]


@subject
def empty_output():
    x = relay.var("x", shape=(relay.Any(), 3))
    return of([x], relay.concatenate([x, x], 0)), [[floats(0, 3)], [floats(2, 3)]]


@subject
def dynamic_arange():
    n = scalar("n", "int32")
    body = relay.arange(relay.const(0), n, relay.const(1), dtype="int32")
    return of([n], body), [[int32(4)], [int32(0)]]


@subject
def dynamic_concatenate():
    x, y = relay.var("x", shape=(relay.Any(), 2)), relay.var("y", shape=(relay.Any(), 2))
    return of([x, y], relay.concatenate([x, y], 0)), [[floats(2, 2), floats(3, 2)]]


@subject
def loop_that_grows():
    i, s = relay.var("i", shape=(), dtype="int32"), relay.var("s", shape=(relay.Any(), 1), dtype="int32")
    n = scalar("n", "int32")

    def body(i, s):
        return i + relay.const(1), relay.concatenate([s, relay.reshape(i, (1, 1))], 0)

    loop = while_loop(lambda i, s: relay.less(i, n), [i, s], body)
    start = loop(relay.const(0), relay.reshape(relay.const(0), (1, 1)))
    return of([n], relay.TupleGetItem(start, 1)), [[int32(0)], [int32(5)]]


@subject
def sorted_with_indices():
    x = var("x", 2, 6)
    top = relay.topk(x, k=3, axis=1, ret_type="both").astuple()
    body = relay.Tuple([relay.argsort(x, axis=1), relay.TupleGetItem(top, 0), relay.TupleGetItem(top, 1)])
    return of([x], body), [[floats(2, 6)]]


@subject
def wrong_type():
    x = var("x", 2, 3)
    return of([x], relay.exp(x)), [[floats(2, 3)], [floats(2, 3).astype("float64")]]


# --- constants, devices, models -------------------------------------------------------------


@subject
def constant():
    return of([], relay.const(np.arange(6, dtype="float32").reshape(2, 3))), [[]]


@subject
def large_constants():
    x = var("x", 100, 100)
    weight = relay.const(floats(100, 100, seed=3))
    module = of([x], relay.nn.dense(x, weight) + relay.const(floats(100, seed=4)))
    return module, [[floats(100, 100)]], {"late_bound": 1000}


@subject
def late_bound_none():
    x = var("x", 2)
    return of([x], x + relay.const(floats(2))), [[floats(2)]], {"late_bound": 1 << 20}


@subject
def late_bound_all():
    x = var("x", 2)
    return of([x], (x + relay.const(floats(2))) * x), [[floats(2)]], {"late_bound": 0}


@subject
def several_functions():
    module = tvm.IRModule()
    for name, factor in [("main", 2.0), ("other", 3.0)]:
        a, b = var("a", 3), var("b", 3)
        module[relay.GlobalVar(name)] = relay.Function([a, b], a * relay.const(factor) - b)
    args = [floats(3), floats(3, seed=1)]
    return relay.transform.InferType()(module), [("main", args)]


@subject
def storage_size_and_offset():
    x = relay.var("x", shape=(relay.Any(), 16))
    y = relay.nn.relu(relay.nn.dense(x, relay.const(floats(16, 16))))
    return of([x], relay.nn.softmax(y)), [[floats(2, 16)]]


@subject
def device_copy():
    x = var("x", 4)
    moved = relay.op.device_copy(relay.exp(x), tvm.cpu(0), tvm.cpu(0))
    return of([x], relay.negative(moved)), [[floats(4)]]


@subject
def parameters():
    x, w = var("x", 2, 4), var("w", 3, 4)
    module = of([x, w], relay.nn.softmax(relay.nn.dense(x, w)))
    return module, [[floats(2, 4)]], {"params": {"w": floats(3, 4, seed=5)}}


@subject
def small_convnet():
    x = var("x", 1, 3, 16, 16)
    y = x
    for n, (inputs, outputs) in enumerate([(3, 8), (8, 16)]):
        weight = relay.const(floats(outputs, inputs, 3, 3, seed=n))
        y = relay.nn.relu(relay.nn.conv2d(y, weight, padding=(1, 1), channels=outputs, kernel_size=(3, 3)))
        y = relay.nn.max_pool2d(y, (2, 2), (2, 2))
    y = relay.nn.dense(relay.nn.batch_flatten(y), relay.const(floats(10, 256, seed=9)))
    return of([x], relay.nn.softmax(y)), [[floats(1, 3, 16, 16)]]


@subject
def recurrent_cell():
    module, p = prelude()
    h, x = scalar("h"), scalar("x")
    step = relay.Function([h, x], relay.tanh(h * relay.const(0.5) + x))
    body = module.get_global_var("foldl")(step, relay.const(0.0), list_of(p, *[0.1, 0.2, 0.3]))
    return main_of(module, [], body), [[]]


@subject
def tree_lstm():
    module, _ = lstm.module()
    return module, [[lstm.tree(module, function)[0]] for function in lstm.SOURCES]
