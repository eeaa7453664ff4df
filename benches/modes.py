#!/usr/bin/env python3
"""Small models in every mode and in ONNX Runtime, interleaved, one thread: `modes.py REFLEX MODELS REFS`.

Prints a table of medians over rounds of the p50 (and p99) of a call, in microseconds. The feeds are
the reference cases' inputs. Runs under the Python that has ONNX Runtime.
"""

import json
import subprocess
import sys
import time

import numpy as np
import onnxruntime as ort

CASES = ["silero_vad.main", "oww_hey_jarvis.main", "surfaces_mlp.rows", "nakdimon_loop.main",
         "tashkeel.sweep"]
COLUMNS = ["bytecode", "compiled", "tiered", "ONNX Runtime"]
ROUNDS = 3
SECONDS = 0.7


def reference(models, refs, case):
    """ONNX Runtime's session of a case, and its feeds."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    model = f"{models}/{case.split('.')[0]}.onnx"
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    arrays, feeds = np.load(f"{refs}/{case}.npz"), {}
    for name in arrays.files:
        kind, number, *rest = name.split(".", 2)
        if kind == "in":
            feeds.setdefault(int(number), {})[rest[0]] = arrays[name]
    return session, [feeds[number] for number in sorted(feeds)]


def time_reference(session, feeds):
    for feed in feeds:
        session.run(None, feed)
    times, end = [], time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        for feed in feeds:
            start = time.perf_counter_ns()
            session.run(None, feed)
            times.append((time.perf_counter_ns() - start) / 1e3)
    return np.percentile(times, 50), np.percentile(times, 99)


def main():
    reflex, models, refs = sys.argv[1:4]
    sessions = {case: reference(models, refs, case) for case in CASES}
    found = {(case, column): [] for case in CASES for column in COLUMNS}
    for _ in range(ROUNDS):
        for case in CASES:
            command = [reflex, "bench", f"{models}/{case.split('.')[0]}.onnx", "--npz",
                       f"{refs}/{case}.npz", "--min-time", str(SECONDS), "--json"]
            told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            for line in map(json.loads, told.splitlines()):
                found[case, line["mode"]].append((line["p50_us"], line["p99_us"]))
            found[case, COLUMNS[-1]].append(time_reference(*sessions[case]))
    print("| case | " + " | ".join(COLUMNS) + " |\n|" + "---|" * (len(COLUMNS) + 1))
    for case in CASES:
        cells = (np.median(found[case, column], axis=0) for column in COLUMNS)
        print(f"| {case} | " + " | ".join(f"{p50:.1f} ({p99:.0f})" for p50, p99 in cells) + " |")


main()
