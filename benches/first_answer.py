#!/usr/bin/env python3
"""Time from a model file to its first answer, whole processes, beside ONNX Runtime.

usage: first_answer.py PEERS MODELS_DIR REFS_DIR [--rounds N] [--policies A;B] [--threads N] [--warm] [model ...]

PEERS is the program `reflex-peers` (`./x peers --help` builds it), in which both engines are linked or loaded as a native
application has them; ORT_DYLIB_PATH is ONNX Runtime's library. Runs under an interpreter that has numpy. Each round
runs every engine once, in turn, on the first feed of a model's first reference, in a process that loads the model, calls it
once and ends:

- Reflex with each tier policy and an empty kernel cache (`--warm`: with one that a run before filled);
- ONNX Runtime.

Both call with the same number of threads, 2 by default. Both compile and load with as many as they like.

Prints medians in milliseconds, of the whole process and of load and first call alone (timed inside), and the ratio of
each policy to ONNX Runtime in both.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np


def first_feed(refs, model):
    """The inputs of the first feed of the model's first reference."""
    files = sorted(refs.glob(f"{model}.*.npz"))
    if not files:
        sys.exit(f"{refs} has no reference of {model}")
    arrays = np.load(files[0])
    return {key: arrays[key] for key in arrays.files if key.split(".")[:2] in (["in", "0"], ["out", "0"])}


def process(args, engine, model, feed, **environment):
    """Seconds of a whole process, and of load and first call in it."""
    command = [args.peers, "--threads", args.threads, "--first-answer", engine, model, feed]
    start = time.perf_counter()
    done = subprocess.run(command, env=dict(os.environ, **environment), capture_output=True, text=True)
    whole = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"{model}, {engine}: {done.stderr}")
    return whole, float(done.stdout)


def measure(args, model, folder):
    """Seconds of each engine, round by round."""
    feed = folder / "feed.npz"
    np.savez(feed, **first_feed(args.refs, model.stem))
    times = {}
    filled = {policy: folder / f"cache{number}" for number, policy in enumerate(args.policies)}
    if args.warm:
        for policy, cache in filled.items():
            process(args, "reflex", model, feed, REFLEX_TIER=policy, REFLEX_CACHE=str(cache))
    for _ in range(args.rounds):
        for policy in args.policies:
            with tempfile.TemporaryDirectory(dir=folder) as empty:
                cache = filled[policy] if args.warm else empty
                took = process(args, "reflex", model, feed, REFLEX_TIER=policy, REFLEX_CACHE=str(cache))
            times.setdefault(policy, []).append(took)
        times.setdefault("onnxruntime", []).append(process(args, "ort", model, feed))
    return {name: [statistics.median(part) * 1e3 for part in zip(*rounds)] for name, rounds in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("peers")
    parser.add_argument("models_dir", type=pathlib.Path)
    parser.add_argument("refs", type=pathlib.Path)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--policies", default="kernels=llvm;kernels=tiered", help="separated by ;")
    parser.add_argument("--warm", action="store_true")
    args = parser.parse_intermixed_args()
    args.policies = args.policies.split(";")
    names = args.models or sorted(path.stem for path in args.models_dir.glob("*.onnx"))
    columns = [*args.policies, "onnxruntime"]
    heads = [f"{column}{part}" for column in columns for part in (", process", ", load and call")]
    heads += [f"{policy} / onnxruntime{part}" for policy in args.policies for part in (", process", ", load and call")]
    print("| model | " + " | ".join(heads) + " |")
    print("|---" * (len(heads) + 1) + "|")
    ratios = {head: [] for head in heads[2 * len(columns):]}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            times = measure(args, args.models_dir / f"{name}.onnx", pathlib.Path(folder))
        row = [f"{took:.0f}" for column in columns for took in times[column]]
        found = [a / b for policy in args.policies for a, b in zip(times[policy], times["onnxruntime"])]
        for ratio, all_ in zip(found, ratios.values()):
            all_.append(ratio)
        print(f"| {name} | " + " | ".join(row + [f"{ratio:.2f}" for ratio in found]) + " |", flush=True)
    means = [f"{statistics.geometric_mean(all_):.2f}" for all_ in ratios.values()]
    print("| geometric mean | " + " | ".join([""] * (2 * len(columns)) + means) + " |")


main()
