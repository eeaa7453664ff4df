"""Runs the examples in the documentation of python/reflex: python_docs.py MODEL.

Fails when a public function or method has none.
"""
import doctest
import inspect
import sys

import numpy as np
import tvm_ffi

import reflex
from reflex import dpl, nn, op, te

MATMUL = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 8), "float32"), w: R.Tensor((8, 4), "float32")) -> R.Tensor((2, 4), "float32"):
        return R.matmul(x, w)
"""


def documented():
    """Names and documentation of all functions and methods that users call."""
    yield "register", op.register.__doc__
    for module, name in [(m, name) for m in (reflex, nn, dpl, te) for name in m.__all__]:
        item = getattr(module, name)
        if not inspect.isclass(item):
            yield name, item.__doc__
        elif not issubclass(item, Exception):
            for key, member in vars(item).items():
                called = callable(member) or isinstance(member, (property, classmethod, staticmethod))
                if called and (key == "__getitem__" or not key.startswith("_")):
                    yield f"{name}.{key}", member.__doc__


def main():
    model = sys.argv[1]
    missing = [name for name, text in documented() if ">>> " not in (text or "")]
    assert not missing, f"no example: {missing}"
    x = np.arange(16, dtype="float32").reshape(2, 8) / 16
    w = (np.arange(40) % 7 - 3).astype("float32").reshape(8, 5)
    program = reflex.load(model)
    shared = {"np": np, "tvm_ffi": tvm_ffi, "reflex": reflex, "model": model, "x": x, "w": w, "script": MATMUL}
    failed = tried = 0
    finder = doctest.DocTestFinder(exclude_empty=True)
    modules = (
        reflex, reflex._arrays, reflex._quantize, reflex.exec_builder, reflex.ir, reflex.rpc, reflex.schedule, reflex._trace,
        nn, op, dpl, te,
    )
    found = [(module, test) for module in modules for test in finder.find(module, module.__name__)]
    for module, test in found:
        # Two say what they are of by the module's name, and are short without it; one says `te`.
        own = vars(module) if module in (op, dpl) else {"te": te}
        globs = dict(own, **shared, program=program, session=program.session())
        test.globs = globs
        result = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(test)
        failed, tried = failed + result.failed, tried + result.attempted
    assert not failed, f"{failed} of {tried} examples failed"
    print(f"{tried} examples\ndone")


if __name__ == "__main__":
    main()
