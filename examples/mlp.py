#!/usr/bin/env python3
"""Calls a compiled model from Python in every way that Python has.

usage: mlp.py MODEL     (tests/filetests/relax/mlp.py, or a .so made from it)

Needs the package that `./x wheel` builds.
"""
import sys
import tempfile
import threading
import time

import numpy as np

import reflex


def raises(kind, call, *args, **options):
    try:
        call(*args, **options)
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def main():
    reflex.register_global_func("examples.add_one", lambda value: value + 1)
    assert reflex.get_global_func("examples.add_one")(2) == 3
    assert reflex.get_global_func("examples.nothing") is None

    program = reflex.load(sys.argv[1])
    assert "main" in program.functions and "@main" in program.as_text()
    assert "ib.function" in program.as_python() and program.stats()
    print(*program.inputs, *program.outputs)
    x = np.arange(16, dtype="float32").reshape(2, 8) / 16
    w = (np.arange(40) % 7 - 3).astype("float32").reshape(8, 5)
    expected = np.maximum(x @ w, 0) + 1

    for mode in ("bytecode", "compiled", "tiered"):
        session = program.session(mode)
        f = session["main"]
        for _ in range(50):
            y = f(x, w=w).numpy()
        np.testing.assert_allclose(y, expected, rtol=1e-6)
        np.testing.assert_array_equal(session.call("main", x, w), y)
        np.testing.assert_array_equal(session.run({"w": w, "x": x})["output0"], y)

        session.set_input("main", x, w)
        session.invoke_stateful("main")
        np.testing.assert_array_equal(session.get_outputs("main"), y)
        target = np.zeros((2, 5), "float32")
        session.bind_outputs("main", target)
        session.invoke_stateful("main")
        np.testing.assert_array_equal(target, y)
        session.save_function("main", "with_w", w)
        np.testing.assert_array_equal(session["with_w"](x), y)
        seconds = session.time_evaluator("with_w", number=5, repeat=3)(x)
        assert len(seconds) == 3 and all(0 < s < 1 for s in seconds)

        errors = [raises(RuntimeError, f, x), raises(ValueError, f, x.astype("int32"), w)]
        assert "expects 2 arguments" in errors[0] and "param" in errors[1], errors
        session.set_fuel(0)
        raises(reflex.FuelExhausted, f, x, w)
        session.set_fuel(None)
        session.set_deadline(0)
        raises(TimeoutError, f, x, w)
        session.set_deadline(None)
        canceller = threading.Thread(target=lambda: (time.sleep(0.02), session.cancel()))
        canceller.start()
        raises(reflex.Cancelled, session.time_evaluator("with_w", number=2**32 - 1), x)
        canceller.join()
        session.cancel_reset()
        np.testing.assert_array_equal(f(x, w), y)

    seen = []

    def watch(function, name, before, result, *args):
        seen.append((name, before, len(args)))
        return 1 if name == "nothing" else 0

    session.set_instrument(watch)
    f(x, w)
    names = [name for name, before, _ in seen if before]
    assert "vm.builtin.match_shape" in names and len(seen) == 2 * len(names), seen

    def refuse(*args):
        raise KeyError("no more")

    session.set_instrument(refuse)
    assert "no more" in raises(KeyError, f, x, w)
    session.set_instrument(None)
    with tempfile.NamedTemporaryFile(suffix=".json") as trace:
        table, y = session.profile("main", x, w, trace=trace.name)
        assert b'"ph":"X"' in trace.read()
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    print(table, end="")

    # When programs become machine code: never, or on the spot at the second call.
    assert "soon" in raises(ValueError, reflex.load, sys.argv[1], tier="threshold=soon")
    assert "turbo" in raises(ValueError, program.session, "turbo")
    policies = {"off": "tiering is off", "threshold=2,compile=sync,saved-code=ignore": "trace"}
    for tier, said in policies.items():
        tiered = reflex.load(sys.argv[1], tier=tier)
        session = tiered.session("tiered")
        calls = session.warm_up("main", x, w)
        assert said in tiered.tiers() and (calls > 1) == (tier != "off"), (tier, calls, tiered.tiers())
        np.testing.assert_array_equal(session["main"](x, w), y)
    assert "ExecBuilder::new()" in program.as_rust()

    # Another session of the program, which gives memory back to the system at once.
    assert "there is cpu" in raises(NotImplementedError, program.session, device="cuda")
    assert "pooled or naive" in raises(ValueError, program.session, memory_cfg="other")
    session = program.session("bytecode", device="cpu", memory_cfg="naive")
    np.testing.assert_array_equal(session["main"](x, w), y)
    memory = reflex.memory()
    assert memory["peak_live"] >= memory["live"] > 0, memory
    reflex.set_memory_limit(memory["live"])
    assert f"the limit of {memory['live']} bytes" in raises(MemoryError, session["main"], x, w)
    reflex.set_memory_limit(None)
    np.testing.assert_array_equal(session["main"](x, w), y)
    print("done")


if __name__ == "__main__":
    main()
