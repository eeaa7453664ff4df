#!/usr/bin/env python3
"""Calls of models while LLVM's kernels replace Cranelift's, and the time until the last is replaced.

usage: kernel_swaps.py PEERS MODELS_DIR REFS_DIR [--rounds N] [model ...]

PEERS is the program `reflex-peers` (`./x peers --help` builds it). Each round runs three processes for a model, each with an
empty kernel cache, on the first feed of the model's first reference:

- one that loads it with `kernels=llvm` and calls it once: what compiling with LLVM takes on all cores, before any call;
- one that calls it without a pause while the kernels of `kernels=tiered` are replaced, until the last is;
- one that calls it for as long with the same kernels, which nothing replaces: its code generator never answers. (Those of
  `kernels=cranelift` are compiled with more care, and faster.)

Prints medians over the rounds: the 99th percentiles of calls and their ratio; the seconds of the first process's load and call, those
from the second's first answer to its last kernel, and their ratio.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

COLUMNS = ["without, p99 ms", "during, p99 ms", "ratio", "LLVM alone, s", "replaced, s", "ratio"]


def process(args, folder, policy, *options, **variables):
    """What a process of `reflex-peers` prints."""
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        environment = dict(os.environ, REFLEX_TIER=f"{policy},shapes=0", REFLEX_CACHE=cache, **variables)
        done = subprocess.run([args.peers, "--threads", "1", *options], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{options}: {done.stderr}")
    return json.loads(done.stdout)


def measure(args, name):
    """One round: a value for each column."""
    model = args.models_dir / f"{name}.onnx"
    reference = min(args.refs.glob(f"{name}.*.npz"))
    with tempfile.TemporaryDirectory() as folder:
        alone = process(args, folder, "kernels=llvm", "--first-answer", "reflex", model, reference)
        during = process(args, folder, "kernels=tiered", "--calls", "0", model, reference)
        silent = pathlib.Path(folder) / "silent-codegen"
        silent.write_text("#!/bin/sh\nexec cat > /dev/null\n")
        silent.chmod(0o755)
        seconds = f"{during['seconds']}"
        without = process(args, folder, "kernels=tiered", "--calls", seconds, model, reference, REFLEX_CODEGEN=str(silent))
    return [
        without["p99_ms"],
        during["p99_ms"],
        during["p99_ms"] / without["p99_ms"],
        alone,
        during["last_s"],
        during["last_s"] / alone,
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("peers")
    parser.add_argument("models_dir", type=pathlib.Path)
    parser.add_argument("refs", type=pathlib.Path)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_intermixed_args()
    names = args.models or sorted(path.stem for path in args.models_dir.glob("*.onnx"))
    print("| model | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for name in names:
        rounds = [measure(args, name) for _ in range(args.rounds)]
        row = [statistics.median(values) for values in zip(*rounds)]
        print(f"| {name} | " + " | ".join(f"{value:.3g}" for value in row) + " |", flush=True)


main()
