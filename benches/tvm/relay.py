"""Times TVM's Relay virtual machine on the programs of jit/cranelift/benches/lists.rs: `foldr`, `map` and
`filter` of Relay's prelude over a list of 1,000 numbers, and a recursion over a tree of 1,001 leaves
whose cells have states of 16 numbers; and on those of tree_lstm.py, a Tree-LSTM over syntax trees.

usage: HHB_TVM=FOLDER PYTHON benches/tvm/relay.py

PYTHON and FOLDER are those that `./x test --relay` sets up. Prints nanoseconds of processor time per list
element or tree node: the median of 41 samples of 10 calls each.
"""

import os
import random
import sys
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../tests/relay"))

import tree_lstm  # noqa: E402
from oracle_env import TARGET, tvm  # noqa: E402

from tvm import relay  # noqa: E402
from tvm.relay.backend.vm import compile as compile_vm  # noqa: E402
from tvm.relay.prelude import Prelude  # noqa: E402
from tvm.runtime.container import ADT  # noqa: E402
from tvm.runtime.vm import VirtualMachine  # noqa: E402

LENGTH, WIDTH, ROUNDS, CALLS = 1_000, 16, 41, 10


def tensor(*values):
    shape = () if len(values) == 1 else (len(values),)
    return tvm.nd.array(np.array(values, "float32").reshape(shape))


def over_list(name):
    """A function of the prelude over a list, and a list."""
    module = tvm.IRModule()
    p = Prelude(module)
    list_type, cons, nil = p.mod.get_type("List")
    a, b = (relay.var(name, shape=(), dtype="float32") for name in "ab")
    args = {
        "foldr": [relay.Function([a, b], a + b), relay.const(0.0)],
        "map": [relay.Function([a], a + a)],
        "filter": [relay.Function([a], relay.greater(a, relay.const(0.0)))],
    }[name]
    xs = relay.var("xs", list_type(relay.TensorType((), "float32")))
    module["main"] = relay.Function([xs], module.get_global_var(name)(*args, xs))
    module = relay.transform.InferType()(module)
    values = ADT(nil.tag, [])
    for _ in range(LENGTH):
        values = ADT(cons.tag, [tensor(random.uniform(-1, 1)), values])
    return module, values


def gate(x):
    return x / (relay.const(1.0) + relay.abs(x))


def over_tree():
    """The recursion over a tree, and a tree."""
    module = tvm.IRModule()
    tree = relay.GlobalTypeVar("Tree")
    state = relay.TensorType((WIDTH,), "float32")
    states = relay.TupleType([state, state])
    leaf = relay.Constructor("Leaf", [states], tree)
    node = relay.Constructor("Node", [tree(), tree()], tree)
    module[tree] = relay.TypeData(tree, [], [leaf, node])
    run, t = relay.GlobalVar("run"), relay.var("t", tree())
    value, left, right = relay.var("value"), relay.var("left"), relay.var("right")
    a, b = relay.var("a", states), relay.var("b", states)
    (ha, ca), (hb, cb) = [[relay.TupleGetItem(x, at) for at in (0, 1)] for x in (a, b)]
    h, g = ha + hb, ha - hb
    c = gate(h) * (ca + cb) + gate(g) * gate(h)
    cell = relay.Tuple([gate(g) * gate(c), c])
    cell = relay.Let(a, run(left), relay.Let(b, run(right), cell))
    children = [relay.PatternVar(left), relay.PatternVar(right)]
    clauses = [
        relay.Clause(relay.PatternConstructor(leaf, [relay.PatternVar(value)]), value),
        relay.Clause(relay.PatternConstructor(node, children), cell),
    ]
    module[run] = relay.Function([t], relay.Match(t, clauses), ret_type=states)
    u = relay.var("u", tree())
    module["main"] = relay.Function([u], run(u))
    module = relay.transform.InferType()(module)

    def grow(leaves):
        if leaves == 1:
            h, c = (tensor(*[random.uniform(-1, 1) for _ in range(WIDTH)]) for _ in range(2))
            return ADT(leaf.tag, [ADT(0, [h, c])])
        split = random.randrange(1, leaves)
        return ADT(node.tag, [grow(split), grow(leaves - split)])

    return module, grow(LENGTH + 1)


def median_time(call, times):
    samples = []
    for _ in range(ROUNDS):
        start = time.thread_time_ns()
        for _ in range(times):
            call()
        samples.append((time.thread_time_ns() - start) / times)
    return sorted(samples)[ROUNDS // 2]


def main():
    random.seed(0)
    for name in ("foldr", "map", "filter", "tree"):
        module, values = over_tree() if name == "tree" else over_list(name)
        machine = VirtualMachine(compile_vm(module, target=TARGET), tvm.cpu())
        machine.set_input("main", values)
        step = median_time(lambda: machine.module["invoke"]("main"), CALLS) / LENGTH
        print(f"{name:<8}{step:>10.1f}", flush=True)
    module, _ = tree_lstm.module()
    machine = VirtualMachine(compile_vm(module, target=TARGET), tvm.cpu())
    for number, function in enumerate(tree_lstm.SOURCES):
        values, nodes = tree_lstm.tree(module, function)
        machine.set_input("main", values)
        step = median_time(lambda: machine.module["invoke"]("main"), CALLS) / nodes
        print(f"tree_lstm {number}, {nodes} nodes{step:>10.1f}", flush=True)


sys.setrecursionlimit(10_000)
main()
