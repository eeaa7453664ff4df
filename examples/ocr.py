#!/usr/bin/env python3
"""Reads a line of text at fifty widths: one program for all shapes, and how to warm it up.

usage: ocr.py MODEL CHARACTERS LINE.ppm

MODEL is ppocr4_rec.onnx or a .so made from it, which can hold code for widths that are known:

    reflex compile ppocr4_rec.onnx -o rec.so --shape x=1x3x48x160 --shape x=1x3x48x320

CHARACTERS has one on each line; `reflex info ppocr4_rec.onnx --json` prints them, as `character` of
`metadata`. LINE.ppm is 48 pixels high. Prints what the left part of the line says, for each width;
latencies go to standard error.
"""
import re
import sys
import time

import numpy as np

import reflex

HEIGHT = 48


def read_ppm(path):
    """An image as bytes [height, width, 3]."""
    with open(path, "rb") as file:
        data = file.read()
    head = re.match(rb"P6\s(\d+)\s(\d+)\s255\s", data)
    if head is None:
        sys.exit(f"{path}: not a binary PPM image")
    width, height = map(int, head.groups())
    return np.frombuffer(data[head.end() :], "uint8").reshape(height, width, 3)


def text(scores, characters):
    """The most probable character of each step, without repetitions and blanks (number 0)."""
    best = scores.argmax(axis=1)
    before = np.concatenate([[0], best[:-1]])
    return "".join(characters[number - 1] for number in best[(best != 0) & (best != before)])


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: ocr.py MODEL CHARACTERS LINE.ppm")
    model, characters, file = sys.argv[1:]
    with open(characters, encoding="utf-8") as lines:
        characters = [*lines.read().splitlines(), " "]
    image = read_ppm(file)
    height, width, _ = image.shape
    if height != HEIGHT or width < 64:
        sys.exit(f"{file}: it must be {HEIGHT} pixels high and 64 wide")
    pixels = (image / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
    planes = pixels.transpose(2, 0, 1)[None]
    widths = [64 + (width - 64) * at // 49 for at in range(50)]
    calls = [np.ascontiguousarray(planes[..., :part]) for part in widths]

    # Fifty sets of shapes are more than are worth a specialised program each.
    session = reflex.load(model, tier="shapes=0").session()
    read = session["main"]
    times = [[], [], []]
    for round, name in enumerate(["first call", "second call", "warmed up"]):
        if round == 2:
            # The machine code of the general program serves every width: one is enough.
            session.warm_up("main", calls[0])
        for part, call in zip(widths, calls):
            start = time.perf_counter()
            scores = read(call)
            times[round].append((time.perf_counter() - start) * 1e3)
            if round == 0:
                print(f"{part}: {text(np.asarray(scores)[0], characters)}")
        ordered = sorted(times[round])
        print(f"{name}: median {ordered[25]:.2f} ms, longest {ordered[49]:.2f} ms", file=sys.stderr)
    for part, first, second, warm in zip(widths, *times):
        print(f"{part}: {first:.2f}, {second:.2f}, {warm:.2f} ms", file=sys.stderr)


if __name__ == "__main__":
    main()
