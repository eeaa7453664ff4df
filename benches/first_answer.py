#!/usr/bin/env python3
"""Time from a model file to its first answer, whole processes, beside ONNX Runtime.

usage: first_answer.py REFLEX MODELS_DIR REFS_DIR [--rounds N] [--policies A,B] [--warm] [model ...]

REFLEX is the program `reflex`, with `reflex-codegen` beside it. Runs under an interpreter that has numpy
and onnxruntime. Each round runs every engine once, in turn, on the first feed of a model's first reference:

- each tier policy with an empty kernel cache (`--warm`: with one that a run before filled), as the process
  `reflex run`, from its start to its end;
- ONNX Runtime in a process of its own: `InferenceSession` and the first `run`, timed inside, so that
  neither Python's start nor the import counts; and that whole process.

Prints medians in milliseconds, and the ratio of each policy to ONNX Runtime's load and first call.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

PEER = """
import sys, time, numpy as np, onnxruntime as ort
feed = dict(np.load(sys.argv[2]))
start = time.perf_counter()
options = ort.SessionOptions()
options.intra_op_num_threads = 2
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
session.run(None, feed)
print(time.perf_counter() - start)
"""


def first_feed(refs, model):
    """The inputs of the first feed of the model's first reference."""
    files = sorted(refs.glob(f"{model}.*.npz"))
    if not files:
        sys.exit(f"{refs} has no reference of {model}")
    arrays = np.load(files[0])
    return {key.split(".", 2)[2]: arrays[key] for key in arrays.files if key.startswith("in.0.")}


def reflex(args, model, inputs, policy, cache):
    command = [args.reflex, "run", str(model), "--json", *inputs]
    environment = dict(os.environ, REFLEX_TIER=policy, REFLEX_CACHE=str(cache))
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    took = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"{model.name}, {policy}: {done.stderr}")
    json.loads(done.stdout)
    return took


def peer(model, feed):
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", PEER, model, feed], capture_output=True, text=True)
    whole = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"{model}: {done.stderr}")
    return float(done.stdout), whole


def measure(args, model, folder):
    """Seconds of each engine, round by round."""
    feed = first_feed(args.refs, model.stem)
    np.savez(folder / "feed.npz", **feed)
    inputs = []
    for number, (name, array) in enumerate(feed.items()):
        path = folder / f"{number}.npy"
        np.save(path, array)
        inputs += ["--input", f"{name}={path}"]
    times = {}
    filled = {policy: folder / f"cache{number}" for number, policy in enumerate(args.policies)}
    if args.warm:
        for policy, cache in filled.items():
            reflex(args, model, inputs, policy, cache)
    for _ in range(args.rounds):
        for policy in args.policies:
            with tempfile.TemporaryDirectory(dir=folder) as empty:
                cache = filled[policy] if args.warm else empty
                times.setdefault(policy, []).append(reflex(args, model, inputs, policy, cache))
        inside, whole = peer(model, folder / "feed.npz")
        times.setdefault("onnxruntime", []).append(inside)
        times.setdefault("onnxruntime, process", []).append(whole)
    return {name: statistics.median(list_) * 1e3 for name, list_ in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("reflex")
    parser.add_argument("models_dir", type=pathlib.Path)
    parser.add_argument("refs", type=pathlib.Path)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--policies", default="kernels=llvm;kernels=tiered", help="separated by ;")
    parser.add_argument("--warm", action="store_true")
    args = parser.parse_args()
    args.policies = args.policies.split(";")
    names = args.models or sorted(path.stem for path in args.models_dir.glob("*.onnx"))
    columns = [*args.policies, "onnxruntime", "onnxruntime, process"]
    ratios = [f"{policy} / onnxruntime" for policy in args.policies]
    print("| model | " + " | ".join(columns + ratios) + " |")
    print("|---" * (len(columns) + len(ratios) + 1) + "|")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            times = measure(args, args.models_dir / f"{name}.onnx", pathlib.Path(folder))
        row = [f"{times[column]:.0f}" for column in columns]
        row += [f"{times[policy] / times['onnxruntime']:.2f}" for policy in args.policies]
        print(f"| {name} | " + " | ".join(row) + " |", flush=True)


main()
