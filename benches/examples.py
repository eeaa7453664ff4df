#!/usr/bin/env python3
"""The models of the examples in ONNX Runtime and in Reflex, interleaved call by call in one process, on
one thread: `examples.py BUILD MODELS`.

BUILD is the folder with `reflex`, `reflex-codegen` and `libreflex.so`. Prints two tables: medians of the
calls in microseconds, by the clock and (in brackets) of the processor, and what a program costs until its
first answer. Runs under a Python with apache-tvm-ffi, numpy and onnxruntime.
"""
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime as ort

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]
BUILD, MODELS = sys.argv[1:3]
os.environ["REFLEX_LIBRARY"] = f"{BUILD}/libreflex.so"

import classify  # noqa: E402
import embed  # noqa: E402
import ocr  # noqa: E402
import reflex  # noqa: E402
import vad  # noqa: E402

CALLS = 300
SENTENCES = ["That is a happy person.", "That is a very happy person.", "That is a happy dog!",
             "Today is a sunny day"]


def cases(media):
    """Each example's model, and its inputs in their order; of vad, windows that follow each other."""
    samples = vad.read_wave(str(media / "voice.wav"))
    padded = np.concatenate([np.zeros(vad.CONTEXT, "float32"), samples])
    starts = range(0, len(samples) - vad.WINDOW + 1, vad.WINDOW)
    windows = [padded[None, at : at + vad.CONTEXT + vad.WINDOW].copy() for at in starts]
    vocab = embed.Vocabulary(str(media / "vocab.txt"))
    tokens = [np.array([vocab.tokens(sentence)], "int64") for sentence in SENTENCES]
    line = ocr.read_ppm(str(media / "line.ppm")).transpose(2, 0, 1)[None] / np.float32(127.5) - 1
    parts = [np.ascontiguousarray(line[..., : 64 + 400 * at // 49]) for at in range(50)]
    state, rate = np.zeros((2, 1, 128), "float32"), np.array(vad.RATE, "int64")
    return {
        "vad": ("silero_vad", [(window, state, rate) for window in windows]),
        "embed": ("minilm_l3_fp32", [(ids, np.ones_like(ids)) for ids in tokens]),
        "ocr": ("ppocr4_rec", [(part.astype("float32"),) for part in parts]),
        "classify": ("pplcnet_orient", [(classify.read_image(str(media / "page.ppm")),)]),
    }


def reference(model):
    """ONNX Runtime's calls."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return lambda *args: session.run(None, dict(zip(names, args)))


def ours(model, calls, tier=None):
    """Reflex's calls, warmed up for each set of shapes."""
    session = reflex.load(model, tier=tier).session()
    for call in {tuple(arg.shape for arg in call): call for call in calls}.values():
        session.warm_up("main", *call)
    return session["main"]


def stateful(model, calls):
    """Reflex's calls of vad with the state in place."""
    session = reflex.load(model).session()
    window, state, rate = (np.array(arg) for arg in calls[0])
    session.warm_up("main", window, state, rate)
    session.set_input("main", window, state, rate)
    session.bind_outputs("main", np.zeros((1, 1), "float32"), state)

    def call(samples, *_):
        window[:] = samples
        session.invoke_stateful("main")

    return call


def feedback(model):
    """ONNX Runtime's calls of vad with the state of the call before."""
    run, state = reference(model), [np.zeros((2, 1, 128), "float32")]

    def call(samples, _, rate):
        state[0] = run(samples, state[0], rate)[1]

    return call


def compile_library(model, library, calls, cache, ahead):
    """Compiles a model, for these calls' shapes if they are known ahead."""
    command = [f"{BUILD}/reflex", "compile", model, "-o", library]
    names = [info.name for info in reflex.load(model, kernel_cache=cache).inputs]
    for call in calls if ahead else []:
        shapes = ["x".join(map(str, arg.shape)) for arg in call]
        command += ["--shape", ",".join(f"{n}={s}" for n, s in zip(names, shapes) if s)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "REFLEX_CACHE": cache})


def interleaved(lanes, calls):
    """Median microseconds of each lane: by the clock, and of this thread on a processor."""
    times = {name: [] for name in lanes}
    for number in range(CALLS + 20):
        call = calls[number % len(calls)]
        for name, run in lanes.items():
            before = np.array([time.perf_counter_ns(), time.thread_time_ns()])
            run(*call)
            after = np.array([time.perf_counter_ns(), time.thread_time_ns()])
            if number >= 20:
                times[name].append((after - before) / 1e3)
    return {name: np.median(sample, axis=0) for name, sample in times.items()}


def first_answer(model, cache):
    """A process that prints the milliseconds from the load to the first answer."""
    script = (
        "import pickle, sys, time; sys.path[:0] = [sys.argv[1]]; import reflex\n"
        "call = pickle.load(sys.stdin.buffer); start = time.perf_counter()\n"
        "session = reflex.load(sys.argv[2], kernel_cache=sys.argv[3]).session(); session['main'](*call)\n"
        "print((time.perf_counter() - start) * 1e3)")
    return [sys.executable, "-c", script, str(ROOT / "python"), model, cache]


def starts(model, libraries, call, folder):
    """First answers with an empty cache (median of 3), with a full one and from libraries (of 7)."""
    data = pickle.dumps(call)
    took = lambda model, cache: float(  # noqa: E731
        subprocess.run(first_answer(model, cache), input=data, capture_output=True, check=True).stdout)
    empty = np.median([took(model, f"{folder}/cold-{n}") for n in range(3)])
    full = np.median([took(model, f"{folder}/cold-0") for _ in range(7)])
    return [empty, full, *(np.median([took(lib, f"{folder}/none") for _ in range(7)]) for lib in libraries)]


def main():
    speed, cost = [], []
    with tempfile.TemporaryDirectory() as folder:
        media = pathlib.Path(folder)
        subprocess.run([sys.executable, ROOT / "tests/examples/media.py", folder], check=True)
        os.environ["REFLEX_CACHE"] = f"{folder}/cache"
        for name, (stem, calls) in cases(media).items():
            model = f"{MODELS}/{stem}.onnx"
            shapes = list({tuple(arg.shape for arg in call): call for call in calls}.values())
            few = shapes if len(shapes) <= 4 else shapes[9::10]
            plain, ahead = f"{folder}/{stem}.so", f"{folder}/{stem}.shapes.so"
            compile_library(model, plain, few, f"{folder}/cache", ahead=False)
            compile_library(model, ahead, few, f"{folder}/cache", ahead=True)
            lanes = {"ORT": reference(model), "onnx": ours(model, calls, None if few is shapes else "shapes=0"),
                     "so": ours(plain, calls), "ahead": ours(ahead, calls)}
            rows = [(name, interleaved(lanes, few if name == "ocr" else calls))]
            if name == "ocr":
                rows = [("ocr, 5 widths with --shape", rows[0][1]),
                        ("ocr, 50 widths", interleaved(lanes, calls))]
            if name == "vad":
                lanes = {"ORT": feedback(model)} | {
                    lane: stateful(path, calls) for lane, path in
                    (("onnx", model), ("so", plain), ("ahead", ahead))}
                rows.append(("vad, state in place", interleaved(lanes, calls)))
            for title, found in rows:
                cells = [f"{found[lane][0]:.1f} ({found[lane][1]:.1f})" for lane in lanes]
                ratio = found["ahead"][1] / found["ORT"][1]
                speed.append(f"| {title} | {' | '.join(cells)} | {ratio:.3f} |")
            times = starts(model, (plain, ahead), calls[0], folder)
            sizes = [os.path.getsize(path) / 2**20 for path in (model, plain, ahead)]
            cells = [f"{value:.1f}" for value in [*sizes, *times]]
            cost.append(f"| {stem} | {' | '.join(cells)} |")
            print(name, "done", file=sys.stderr)
    print("| example | ONNX Runtime | Reflex, .onnx | .so | .so with --shape | the last to the first |")
    print("|---|---|---|---|---|---|", *speed, sep="\n")
    print("\n| model | .onnx, MiB | .so | .so with --shape | first answer: .onnx, empty cache, ms | full cache"
          " | .so | .so with --shape |")
    print("|---|---|---|---|---|---|---|---|", *cost, sep="\n")


if __name__ == "__main__":
    main()
