#!/usr/bin/env python3
"""Classifies an image and prints the five best classes.

usage: classify.py MODEL LABELS IMAGE.ppm

MODEL is pplcnet_orient.onnx, which tells how a page is turned, or a .so made from it; other models of
224 by 224 pixels with ImageNet's means do as well. LABELS has a class on each line; `reflex info
pplcnet_orient.onnx` prints them, as `character` of its metadata. The latency goes to standard error.
"""
import re
import sys
import time

import numpy as np

import reflex

SIDE = 224
MEAN = np.array([0.485, 0.456, 0.406], "float32")
DEVIATION = np.array([0.229, 0.224, 0.225], "float32")


def read_image(path):
    """The middle square of an image at the model's size, the nearest pixel for each, as planes."""
    with open(path, "rb") as file:
        data = file.read()
    head = re.match(rb"P6\s(\d+)\s(\d+)\s255\s", data)
    if head is None:
        sys.exit(f"{path}: not a binary PPM image")
    width, height = map(int, head.groups())
    image = np.frombuffer(data[head.end() :], "uint8").reshape(height, width, 3)
    side = min(width, height)
    steps = np.arange(SIDE) * side // SIDE
    square = image[(height - side) // 2 + steps][:, (width - side) // 2 + steps]
    planes = ((square / np.float32(255) - MEAN) / DEVIATION).transpose(2, 0, 1)
    return np.ascontiguousarray(planes[None])


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: classify.py MODEL LABELS IMAGE.ppm")
    model, labels, file = sys.argv[1:]
    with open(labels, encoding="utf-8") as lines:
        labels = lines.read().splitlines()
    image = read_image(file)
    session = reflex.load(model).session()
    session.warm_up("main", image)
    start = time.perf_counter()
    scores = session["main"](image)
    print(f"{(time.perf_counter() - start) * 1e3:.2f} ms", file=sys.stderr)
    scores = np.asarray(scores)[0]
    for best in np.argsort(-scores, kind="stable")[:5]:
        print(f"{scores[best]:.3f} {labels[best] if best < len(labels) else '?'}")


if __name__ == "__main__":
    main()
