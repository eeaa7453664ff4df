"""Reflex and TVM's virtual machine, interleaved in one process.

usage: vs_tvm.py FOLDER [--rounds N] [--json FILE]
FOLDER keeps the libraries that TVM exports for the workloads (building them takes minutes, most
of it TVM's compiled mode). Both run the same libraries, kernels included: TVM those of the mode
it is measured in, Reflex those of TVM's bytecode mode. Loops are TVM's and Reflex's own
`time_evaluator`, in native code. Figures are nanoseconds per step: the slope between 100 and
1,000 steps, the median of the rounds, in brackets the least and the largest.
"""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "python")]

import workloads
from workloads import WORKLOADS, exported, single

STEPS = (100, 1000)
MODES = ("bytecode", "compiled", "tiered")


class Tvm:
    def __init__(self, path):
        from workloads import relax, tvm

        self.cpu = tvm.cpu()
        self.vm = relax.VirtualMachine(tvm.runtime.load_module(path), self.cpu)

    def time(self, args):
        self.vm.save_function("main", "saved", *args, include_return=False)
        timer = self.vm.time_evaluator("saved", self.cpu, number=10, repeat=5, min_repeat_ms=4)
        return statistics.median(timer().results)


class Reflex:
    def __init__(self, path, mode):
        import reflex

        self.session = reflex.load(path, tier="kernels=best").session(mode)

    def time(self, args):
        timer = self.session.time_evaluator("main", number=10, repeat=5, min_repeat_ms=4)
        return statistics.median(timer(*args))


def engines(folder, name):
    """By column: by number of steps, something with a method `time`."""
    columns = {}
    for mode in ("bytecode", "compiled"):
        paths = {n: exported(folder, name, n, mode) for n in STEPS}
        if all(paths.values()):
            columns[f"TVM {mode}"] = {n: Tvm(path) for n, path in paths.items()}
    for mode in MODES:
        paths = {n: exported(folder, name, n, "bytecode") for n in STEPS}
        columns[f"Reflex {mode}"] = {n: Reflex(path, mode) for n, path in paths.items()}
    return columns


def slopes(folder, rounds):
    rows = {}
    for name, (_, _, arguments) in WORKLOADS.items():
        columns = engines(folder, name)
        args = {n: arguments(n) for n in STEPS}
        found = {column: [] for column in columns}
        for column, by_steps in columns.items():  # what is hot gets compiled before the rounds
            for n in STEPS:
                by_steps[n].time(args[n])
        for _ in range(rounds):
            for column, by_steps in columns.items():
                short, long = (by_steps[n].time(args[n]) for n in STEPS)
                found[column].append((long - short) / (STEPS[1] - STEPS[0]) * 1e9)
        rows[name] = found
    return rows


def entry_library(folder):
    """entry.c as a library of this process."""
    import tvm_ffi

    path = os.path.join(folder, "entry.so")
    if not os.path.exists(path):
        source = os.path.join(HERE, "entry.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", path], check=True)
    loaded = [line.split()[-1] for line in open("/proc/self/maps") if "libtvm_ffi" in line]
    ctypes.CDLL(loaded[0], mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(path)


def entries(folder, rounds):
    """A call of an identity function from C, in nanoseconds."""
    import tvm_ffi

    library = entry_library(folder)
    x = single(1)[0]
    value = (ctypes.c_int64 * 2)(70, x.__chandle__())  # a tensor, as tvm-ffi passes it
    functions = {}
    for mode in ("bytecode", "compiled"):
        vm = Tvm(exported(folder, "identity", 1, mode)).vm
        functions[f"TVM {mode}"] = (vm, vm["main"])
    for mode in MODES:
        session = Reflex(exported(folder, "identity", 1, "bytecode"), mode).session
        functions[f"Reflex {mode}"] = (session, session["main"])
    times = 200_000
    found = {column: [] for column in functions}
    for attempt in range(rounds + 1):
        for column, (_, function) in functions.items():
            handle = ctypes.c_void_p(function.__chandle__())
            began = time.perf_counter_ns()
            status = library.repeat(handle, value, 1, ctypes.c_int64(times))
            spent = (time.perf_counter_ns() - began) / times
            assert status == 0, column
            if attempt > 0:
                found[column].append(spent)
    return {"entry from C": found}


def loading(folder, rounds):
    """Opening a library with a constant of 64 MiB that TVM wrote, in nanoseconds."""
    import reflex
    from workloads import relax, tvm

    path = exported(folder, "large", 1, "bytecode")
    found = {"TVM bytecode": [], "Reflex bytecode": []}
    for attempt in range(rounds + 1):
        began = time.perf_counter_ns()
        relax.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())
        middle = time.perf_counter_ns()
        reflex.load(path, tier="kernels=best").session("bytecode")
        if attempt > 0:
            found["TVM bytecode"].append(middle - began)
            found["Reflex bytecode"].append(time.perf_counter_ns() - middle)
    return {"TVM's file, 64 MiB constant: ready": found}


def table(rows):
    columns = ["TVM bytecode", "TVM compiled", *(f"Reflex {mode}" for mode in MODES)]
    print("| ns a step | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name, found in rows.items():
        cells = []
        for column in columns:
            values = found.get(column)
            digits = 1 if values and statistics.median(values) < 1000 else 0
            cells.append("-" if not values else
                         f"{statistics.median(values):,.{digits}f} "
                         f"({min(values):,.{digits}f} to {max(values):,.{digits}f})")
        print(f"| {name} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json")
    parser.add_argument("--build", action="store_true", help="only export the libraries")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    for name in [*WORKLOADS, *workloads.EXTRA]:
        for n in STEPS:
            for mode in ("bytecode", "compiled"):
                exported(options.folder, name, n, mode)
    if options.build:
        return
    rows = slopes(options.folder, options.rounds)
    rows |= entries(options.folder, options.rounds)
    rows |= loading(options.folder, options.rounds)
    table(rows)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)


main()
