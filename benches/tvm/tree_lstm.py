"""Times a child-sum Tree-LSTM over syntax trees in every mode of Reflex: the executable that TVM's Relay
compiler made of tests/relay/tree_lstm.py, with TVM's kernels.

usage: PYTHON benches/tvm/tree_lstm.py FOLDER

PYTHON has apache-tvm-ffi and NumPy, FOLDER is what `tests/relay/compile.py FOLDER` wrote. The modes take turns; prints
nanoseconds of processor time per node, medians of 41 samples, and what the kernels take of that in a profile of bytecode.
`benches/tvm/relay.py` prints the time of TVM's virtual machine for the same trees.
"""

import json
import os
import re
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../python"))

import reflex  # noqa: E402

ROUNDS, WARM_UP, CALLS = 41, 60, 5
MODES = "bytecode", "compiled", "tiered"


def value_of(value):
    """An argument: the tag of a data value, then its fields."""
    if "fields" in value:
        tag = [value["tag"]] if value["tag"] else []
        return (*tag, *map(value_of, value["fields"]))
    data = np.frombuffer(bytes.fromhex(value["data"]), dtype=value["dtype"])
    return np.array(data.reshape(value["shape"]))


def nodes(value):
    """The tensors of a tree, of which each node has one."""
    return sum(map(nodes, value["fields"])) if "fields" in value else 1


def answer_of(value):
    return [value_of(field) for field in value["fields"]]


def main(folder):
    program = reflex.load(os.path.join(folder, "tree_lstm.ro"))
    with open(os.path.join(folder, "tree_lstm.json")) as file:
        calls = json.load(file)["calls"]
    print("tree      nodes  bytecode  compiled    tiered   kernels  bytecode/tiered")
    for number, call in enumerate(calls):
        tree, count = value_of(call["args"][0]), nodes(call["args"][0])
        sessions = [program.session(mode) for mode in MODES]
        for session in sessions:
            for have, want in zip(session["main"](tree), answer_of(call["answer"]["result"])):
                assert have.numpy().tobytes() == want.tobytes(), "another answer than TVM's"
        samples = [[] for _ in MODES]
        for _ in range(ROUNDS + WARM_UP):
            for session, times in zip(sessions, samples):
                main = session["main"]
                start = time.thread_time_ns()
                for _ in range(CALLS):
                    main(tree)
                times.append((time.thread_time_ns() - start) / CALLS / count)
        bytecode, compiled, tiered = [sorted(times[WARM_UP:])[ROUNDS // 2] for times in samples]
        print(
            f"{number:<8}{count:>7}{bytecode:>10.0f}{compiled:>10.0f}{tiered:>10.0f}"
            f"{kernels(sessions[0], tree) / count:>10.0f}{bytecode / tiered:>17.1f}"
        )


def kernels(session, tree):
    """Nanoseconds of the calls of kernels, the clock's own time included."""
    with tempfile.NamedTemporaryFile(suffix=".json") as trace:
        session.profile("main", tree, trace=trace.name)
        events = json.load(trace)["traceEvents"]
    own = re.compile(r"vm_mod_fused|fused_")
    return sum(1_000 * event["dur"] for event in events if own.match(event["name"]))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
