#!/usr/bin/env python3
"""Finds speech in a sound file with silero's voice activity detector, whose state stays in place.

usage: vad.py MODEL FILE.wav      (silero_vad.onnx or a .so made from it; 16 kHz, mono, 16 bits)

Answers go to standard output, latencies to standard error.
"""
import sys
import time
import wave

import numpy as np

import reflex

WINDOW = 512  # samples of a call
CONTEXT = 64  # samples of the window before, which the model sees again
RATE = 16000


def read_wave(path):
    """The samples of a wave file, from -1 to 1."""
    with wave.open(path) as file:
        if (file.getnchannels(), file.getsampwidth(), file.getframerate()) != (1, 2, RATE):
            sys.exit(f"{path}: not a wave file of 16 kHz, one channel and 16 bits")
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    return samples / np.float32(32768)


def segments(probabilities):
    """Windows with speech: from a probability of 0.5 until four windows in a row are below 0.35."""
    found, start, end = [], None, 0
    for at, probability in enumerate(probabilities):
        if probability >= 0.5 and start is None:
            start = at
        if probability >= 0.35:
            end = at + 1
        if at + 1 - end >= 4 and start is not None:
            found.append((start, end))
            start = None
    return found if start is None else [*found, (start, end)]


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: vad.py MODEL FILE.wav")
    model, file = sys.argv[1:]
    samples = read_wave(file)
    session = reflex.load(model).session()
    window = np.zeros((1, CONTEXT + WINDOW), "float32")
    state = np.zeros((2, 1, 128), "float32")
    probability = np.zeros((1, 1), "float32")
    rate = np.array(RATE, "int64")
    session.warm_up("main", window, state, rate)
    # The state that a run returns is the one that the next run reads.
    session.set_input("main", window, state, rate)
    session.bind_outputs("main", probability, state)

    probabilities, times = [], []
    for at in range(0, len(samples) - WINDOW + 1, WINDOW):
        window[:, :CONTEXT] = window[:, WINDOW:]
        window[:, CONTEXT:] = samples[at : at + WINDOW]
        start = time.perf_counter()
        session.invoke_stateful("main")
        times.append((time.perf_counter() - start) * 1e6)
        probabilities.append(float(probability[0, 0]))

    for start, end in segments(probabilities):
        mean = sum(probabilities[start:end]) / (end - start)
        start, end = start * WINDOW / RATE, end * WINDOW / RATE
        print(f"speech from {start:.2f} to {end:.2f} s, probability {mean:.3f}")
    times.sort()
    mean, p99 = sum(times) / len(times), times[int(0.99 * len(times))]
    print(f"{len(times)} calls: mean {mean:.1f} us, 99th percentile {p99:.1f} us", file=sys.stderr)


if __name__ == "__main__":
    main()
