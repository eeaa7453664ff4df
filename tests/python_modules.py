"""Modules as values, in a process with TVM: python_modules.py MODEL LIBRARY.

MODEL is the library made from tests/filetests/relax/mlp.py, LIBRARY one of packed functions.
"""
import sys

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

import reflex
from common.expect import raises

MODEL, LIBRARY = sys.argv[1:]
X = np.arange(16, dtype="float32").reshape(2, 8) / 16
W = (np.arange(40) % 7 - 3).astype("float32").reshape(8, 5)
Y = np.maximum(X @ W, 0) + 1
MODES = ("bytecode", "compiled", "tiered")


def tensor(array):
    return tvm.runtime.tensor(array)


def they_are_modules_of_tvm():
    module = reflex.load_module(MODEL)
    assert isinstance(module, tvm.runtime.Module) and module.kind == "relax.VMExecutable"
    assert module.is_runnable() and not module.is_binary_serializable()
    assert module.implements_function("main") and not module.implements_function("nope")
    assert "@main" in module.inspect_source() and module.inspect_source() == module["as_text"]()
    assert "no function 'nope'" in raises(AttributeError, module.get_function, "nope")
    assert reflex.load(MODEL).module()["stats"]() == module["stats"]()


def the_virtual_machine_of_tvm_runs_them(mode):
    vm = relax.VirtualMachine(reflex.load_module(MODEL, mode=mode), tvm.cpu(), memory_cfg="naive")
    expected = relax.VirtualMachine(tvm.runtime.load_module(MODEL), tvm.cpu())["main"](tensor(X), tensor(W))
    np.testing.assert_allclose(expected.numpy(), Y, rtol=1e-6)
    np.testing.assert_array_equal(vm["main"](tensor(X), tensor(W)).numpy(), expected.numpy())
    vm.set_input("main", tensor(X), w=tensor(W))
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs("main").numpy(), expected.numpy())
    vm.save_function("main", "of_w", tensor(W))
    np.testing.assert_array_equal(vm["of_w"](tensor(X)).numpy(), expected.numpy())
    # Strided tensors are what they look like, also where they outlive the call.
    x, w = (tvm_ffi.from_dlpack(np.ascontiguousarray(array.T).T) for array in (X, W))
    vm.set_input("main", x, w)
    vm.save_function("main", "of_strided", w)
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs("main").numpy(), expected.numpy())
    np.testing.assert_array_equal(vm["of_strided"](x).numpy(), expected.numpy())
    times = vm.time_evaluator("main", tvm.cpu(), number=2, repeat=3)(tensor(X), tensor(W))
    assert len(times.results) == 3 and all(time > 0 for time in times.results)
    seen = []
    vm.set_instrument(lambda function, name, before, result, *args: seen.append((name, before)))
    vm["main"](tensor(X), tensor(W))
    assert (seen[0][1], seen[-1][1]) == (True, False), seen
    assert raises(Exception, vm["main"], tensor(X))


def stateful_modules_keep_inputs_and_outputs(mode):
    factory = reflex.load_module(MODEL, mode=mode)
    model = factory["default"](tvm.cpu(0))
    assert model["get_num_inputs"]() == 2 and model["get_num_outputs"]() == 1
    assert (model["get_input_index"]("w"), model["get_input_index"]("nope")) == (1, -1)
    x = X.copy()
    model["set_input"](0, tensor(x))
    assert "input 1 of `main` is not set" in raises(ValueError, model["run"])
    assert "call `run` first" in raises(ValueError, model["get_output"], 0)
    model["set_input"]("w", tensor(W))
    model["run"]()
    np.testing.assert_allclose(model["get_output"](0).numpy(), Y, rtol=1e-6)
    np.testing.assert_array_equal(model["get_input"]("x").numpy(), X)
    into = tensor(np.zeros((2, 5), "float32"))
    assert model["get_output"]("output0", into).same_as(into)
    np.testing.assert_allclose(into.numpy(), Y, rtol=1e-6)
    # A copy is kept; a shared one is seen to change.
    shared = tensor(x)
    model["set_input_zero_copy"]("x", shared)
    shared.copyfrom(2 * X)
    model["run"]()
    np.testing.assert_allclose(model["get_output"](0).numpy(), np.maximum(2 * X @ W, 0) + 1, rtol=1e-6)
    strided = tvm_ffi.from_dlpack(np.ascontiguousarray(X.T).T)
    model["set_input"]("x", strided)
    np.testing.assert_array_equal(model["get_input"]("x").numpy(), X)
    assert "only a compact tensor" in raises(TypeError, model["set_input_zero_copy"], "x", strided)
    assert "no input 'z'" in raises(KeyError, model["set_input"], "z", tensor(x)).replace('"', "'")
    assert "no input 2; there are 2" in raises(IndexError, model["set_input"], 2, tensor(x))
    assert "there is no device" in raises(Exception, factory["main"], tvm.cuda(0))


def modules_travel_through_functions_and_import_each_other():
    library, model = reflex.load_module(LIBRARY), reflex.load_module(MODEL)
    assert library.kind == "library" and library["twice"](21) == 42
    foreign = tvm_ffi.load_module(LIBRARY)
    identity = tvm_ffi.convert(lambda module: module)
    assert identity(model).same_as(model)
    # Ours imports one of TVM's, and theirs one of ours.
    model.import_module(foreign)
    assert [each.kind for each in model.imports] == ["library"] and model.imports[0].same_as(foreign)
    assert model.get_function("twice", query_imports=True)(4) == 8
    assert not model.implements_function("twice")
    foreign.import_module(library)
    assert foreign.get_function("twice", True)(1) == 2
    raises(Exception, library.import_module, model)
    model.clear_imports()
    assert not model.imports and not model.implements_function("twice", True)
    # A function of ours finds what a module of TVM has.
    reflex.register_global_func("test.modules.twice", lambda module, x: module["twice"](x))
    assert reflex.get_global_func("test.modules.twice")(foreign, 3) == 6
    # They outlive their handles.
    run = reflex.load_module(MODEL)["main"](tvm.cpu())["run"]
    assert "is not set" in raises(ValueError, run)


DPS = """

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((3,), "float32")):
        n = T.int64()
        y = R.call_dps_packed("test.dps.scale", (x, R.prim_value(3)), out_ty=R.Tensor((n, 4), "float32"))
        z = R.call_dps_packed(
            "test.dps.split", (w,), out_ty=[R.Tensor((2,), "float32"), R.Tensor((1,), "float32")]
        )
        return (y, z[0], z[1])
"""


def destination_passing_calls_are_those_of_tvm():
    @tvm_ffi.register_global_func("test.dps.scale", override=True)
    def scale(x, factor, out):
        tvm.runtime.tensor(x.numpy() * factor).copyto(out)

    @tvm_ffi.register_global_func("test.dps.split", override=True)
    def split(w, head, tail):
        tvm.runtime.tensor(w.numpy()[:2]).copyto(head)
        tvm.runtime.tensor(w.numpy()[2:]).copyto(tail)

    x, w = np.arange(8, dtype="float32").reshape(2, 4), np.array([5, 6, 7], "float32")
    theirs = relax.VirtualMachine(tvm.compile(tvm.script.from_source(DPS), "llvm"), tvm.cpu())
    expected = [each.numpy() for each in theirs["main"](tensor(x), tensor(w))]
    np.testing.assert_array_equal(expected[0], 3 * x)
    program = reflex.compile(DPS)
    for mode in MODES:
        for _ in range(3):
            results = program.session(mode)["main"](x, w)
            assert len(results) == len(expected)
            for ours, other in zip(results, expected):
                np.testing.assert_array_equal(ours.numpy(), other)


def shapes_are_computed_on_a_heap():
    """The example of the design of Relax's virtual machine, with its first builtins."""
    ib = reflex.ExecBuilder()
    with ib.function("main", num_inputs=0):
        ib.emit_call("vm.builtin.alloc_shape_heap", [ib.vm_state(), ib.imm(2)], ib.r(0))
        ib.emit_call("vm.builtin.shape_of", [np.zeros((32, 16), "float32")], ib.r(1))
        ib.emit_call("vm.builtin.store_shape", [ib.r(1), ib.r(0), ib.imm(0), ib.imm(1)])
        ib.emit_call("vm.builtin.load_shape", [ib.r(0), ib.imm(1), ib.imm(0)], ib.r(2))
        ib.emit_ret(ib.r(2))
    program = ib.get()
    for mode in MODES:
        main = program.session(mode)["main"]
        assert [list(main()) for _ in range(3)] == [[16, 32]] * 3


def targets_are_those_of_tvm():
    """A target of TVM, a dictionary and a text say what a model is compiled for."""
    script = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 8), "float32")) -> R.Tensor((2, 8), "float32"):
        return R.exp(x)
"""
    native = reflex.compile(script).session()["main"](X).numpy()
    haswell = {"kind": "llvm", "mcpu": "haswell", "num-cores": 2}
    for target in ("llvm", "llvm -mcpu=haswell", haswell, tvm.target.Target("llvm"), tvm.target.Target(haswell)):
        answer = reflex.compile(script, target=target).session()["main"](X).numpy()
        np.testing.assert_array_equal(answer, native)
    why = raises(NotImplementedError, reflex.compile, script, target=tvm.target.Target("metal"))
    assert why == 'no target kind "metal"; there are llvm, cuda, c and opencl', why
    # Compiled for a GPU, to be saved: nothing here runs it.
    assert reflex.compile(script, target=tvm.target.Target("nvidia/nvidia-a100")).functions == ["main"]
    # A pipeline by the attributes of the target.
    asked = []
    def chosen(known):
        asked.append(known)
        return "-simplify" if known.get("vector_bytes") == 32 else "default"
    answer = reflex.compile(script, target=haswell, pipeline=chosen).session()["main"](X).numpy()
    np.testing.assert_array_equal(answer, native)
    reflex.compile(script, target=tvm.target.Target("nvidia/nvidia-a100"), pipeline=chosen)
    assert [known["kind"] for known in asked] == ["llvm", "cuda"] and asked[1]["thread_warp_size"] == 32
    assert "chosen by the target" in raises(ValueError, reflex.compile, script, device="cuda:0", pipeline=chosen)


PATTERNS = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 4), "float32"), y: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            a = R.matmul(y, w)
            b = R.matmul(x, w)
            c = R.matmul(x, w)
            d = R.add(b, c)
            e = R.concat((a, d), axis=0)
            f = R.multiply(e, R.const(2.0, "float32"))
            R.output(f)
        return f
"""


def patterns_match_what_those_of_tvm_match():
    from reflex import dpl as ours
    from tvm.relax import dpl as theirs

    main = tvm.script.from_source(PATTERNS)["main"]
    block = main.body.blocks[0]

    def together(make):
        """The names that TVM and reflex find for the same patterns, made by either's words."""
        with theirs.PatternContext() as context:
            parts = make(theirs)
            found = context.match_dfb(block)
            expected = None if found is None else [str(found[part].name) for part in parts]
        parts = make(ours)
        found = ours.find_together(PATTERNS, parts)
        return expected, [found[0][part] for part in parts] if found else None

    def products(dpl):
        x, w = dpl.wildcard(), dpl.wildcard()
        return [dpl.is_op("relax.matmul")(x, w), dpl.is_op("relax.matmul")(x, w)]

    def in_any_order(dpl, unordered, first, second):
        fields = [dpl.is_op(name)(dpl.wildcard(), dpl.wildcard()) for name in (first, second)]
        return dpl.is_op("relax.concat")(unordered(fields))

    def of_one_shape(name):
        def make(dpl):
            left, right = dpl.wildcard(), dpl.wildcard()
            same = left.same_shape_as(right)
            # TVM's is a constraint of the context, ours a pattern.
            return [dpl.is_op(name)(same if dpl is ours else left, right)]

        return make

    assert together(products) == (["b", "c"], ["b", "c"])
    values = relax.analysis.get_var2val(main)
    for first, second, matches in [("add", "matmul", True), ("matmul", "add", True), ("add", "add", False)]:
        names = (f"relax.{first}", f"relax.{second}")
        pattern = in_any_order(theirs, theirs.UnorderedTuplePattern, *names)
        assert pattern.match(block.bindings[4].value, values) == matches, names
        found = ours.find(PATTERNS, in_any_order(ours, ours.is_unordered_tuple, *names))
        assert [match["value"] for match in found] == (["e"] if matches else []), names
    assert together(of_one_shape("relax.add")) == (["d"], ["d"])
    assert together(of_one_shape("relax.multiply")) == (None, None)


they_are_modules_of_tvm()
patterns_match_what_those_of_tvm_match()
targets_are_those_of_tvm()
shapes_are_computed_on_a_heap()
destination_passing_calls_are_those_of_tvm()
for each in MODES:
    the_virtual_machine_of_tvm_runs_them(each)
    stateful_modules_keep_inputs_and_outputs(each)
modules_travel_through_functions_and_import_each_other()
print("done")
