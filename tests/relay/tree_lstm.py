"""A child-sum Tree-LSTM (Tai, Socher and Manning, ACL 2015) in Relay, and real trees for it: syntax trees of
functions of Python's standard library.
"""

import ast
import inspect
import textwrap

import numpy as np

from oracle_env import tvm
from tvm import relay
from tvm.relay.prelude import Prelude
from tvm.runtime.container import ADT

WIDTH = 16
# The kinds of nodes that syntax trees have, which are the words of the model.
KINDS = sorted(name for name in dir(ast) if isinstance(getattr(ast, name), type))
# Functions whose syntax trees are the inputs.
SOURCES = [textwrap.dedent, textwrap.TextWrapper._wrap_chunks, inspect.getmro]


def module():
    """`main` takes a rose tree of kinds and gives the state of its root, a pair of (1, WIDTH)."""
    made = tvm.IRModule()
    prelude = Prelude(made)
    random = np.random.RandomState(1)

    def weights(*shape):
        return relay.const((random.rand(*shape) - 0.5).astype("float32"))

    tree_type, rose = made.get_type("Tree")
    kind = relay.TensorType((), "int32")
    state = relay.TensorType((1, WIDTH), "float32")
    states = relay.TupleType([state, state])
    fold, over = made.get_global_var("foldl"), made.get_global_var("map")
    lstm = relay.GlobalVar("lstm")
    t, u = (relay.var(name, tree_type(kind)) for name in "tu")
    word, children = relay.var("word"), relay.var("children")
    x, below = relay.var("x"), relay.var("below")
    table = weights(len(KINDS), WIDTH)
    word_weights = {gate: weights(WIDTH, WIDTH) for gate in "iofu"}
    state_weights = {gate: weights(WIDTH, WIDTH) for gate in "iofu"}
    bias = {gate: weights(1, WIDTH) for gate in "iofu"}

    def gate(name, h):
        return (
            relay.nn.dense(x, word_weights[name]) + relay.nn.dense(h, state_weights[name]) + bias[name]
        )

    def summed(term):
        total, child = relay.var("total", state), relay.var("child", states)
        of = relay.Function([total, child], total + term(child))
        return fold(of, relay.const(np.zeros((1, WIDTH), "float32")), below)

    h = relay.var("h")
    at = relay.TupleGetItem
    forget = lambda child: relay.sigmoid(gate("f", at(child, 0))) * at(child, 1)
    c, out = relay.var("c"), relay.var("out")
    cell = relay.sigmoid(gate("i", h)) * relay.tanh(gate("u", h)) + summed(forget)
    body = relay.Let(c, cell, relay.Tuple([relay.sigmoid(gate("o", h)) * relay.tanh(c), c]))
    body = relay.Let(h, summed(lambda child: at(child, 0)), body)
    body = relay.Let(below, over(lstm, children), body)
    body = relay.Let(x, relay.reshape(relay.take(table, word, axis=0), (1, WIDTH)), body)
    fields = [relay.PatternVar(word), relay.PatternVar(children)]
    match = relay.Match(t, [relay.Clause(relay.PatternConstructor(rose, fields), body)])
    made[lstm] = relay.Function([t], match, ret_type=states)
    made["main"] = relay.Function([u], lstm(u))
    return relay.transform.InferType()(made), prelude


def tree(made, function):
    """The syntax tree of a function, and the number of its nodes."""
    _, rose = made.get_type("Tree")
    _, cons, nil = made.get_type("List")
    count = 0

    def of(node):
        nonlocal count
        count += 1
        children = ADT(nil.tag, [])
        for child in reversed(list(ast.iter_child_nodes(node))):
            children = ADT(cons.tag, [of(child), children])
        kind = np.array(KINDS.index(type(node).__name__), dtype="int32")
        return ADT(rose.tag, [tvm.nd.array(kind), children])

    root = of(ast.parse(textwrap.dedent(inspect.getsource(function))))
    return root, count
