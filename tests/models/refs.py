#!/usr/bin/env python3
"""Write reference inputs and ONNX Runtime's answers as .npz, for `reflex check` and `bench`.

usage: refs.py MODELS_DIR OUT_DIR [name ...]      (needs numpy and onnxruntime)

One file a case, OUT_DIR/<model>.<case>.npz, with keys in.<k>.<input> and out.<k>.<output> for
feed k. Inputs have a fixed seed per model and case.
"""
import os
import sys
import zlib

import numpy as np
import onnxruntime as ort


def image(rng, *shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


def speech(rng, samples, rate=16000):
    """Two gliding tones and noise, peak about 0.5."""
    t = np.arange(samples) / rate
    tones = 0.25 * np.sin(2 * np.pi * (220 + 40 * t) * t) + 0.15 * np.sin(2 * np.pi * 1330 * t)
    return (tones + 0.05 * rng.standard_normal((1, samples))).astype(np.float32)


def vad(rng, samples, rate):
    state = (0.1 * rng.standard_normal((2, 1, 128))).astype(np.float32)
    return dict(input=speech(rng, samples, rate), state=state, sr=np.array(rate, np.int64))


def sentence(rng, length):
    words = rng.integers(1000, 29000, (1, length - 2)).astype(np.int64)
    ids = np.concatenate([[[101]], words, [[102]]], 1).astype(np.int64)
    return dict(input_ids=ids, attention_mask=np.ones((1, length), np.int64))


# model -> case -> feeds
CASES = {
    "magika": {"main": lambda r: [dict(bytes=r.integers(0, 257, (1, 2048)).astype(np.int32))],
               "batch": lambda r: [dict(bytes=r.integers(0, 257, (n, 2048)).astype(np.int32)) for n in (1, 3)]},
    "silero_vad": {"main": lambda r: [vad(r, 576, 16000)],
                   "rates": lambda r: [vad(r, 576, 16000), vad(r, 288, 8000), vad(r, 576, 16000)]},
    "minilm_l3_fp32": {"main": lambda r: [sentence(r, 128)],
                       "s16": lambda r: [sentence(r, 16)],
                       "sweep": lambda r: [sentence(r, n) for n in (16, 96, 5, 128, 31, 64)]},
    "pplcnet_orient": {"main": lambda r: [dict(x=image(r, 1, 3, 224, 224))]},
    "oww_embedding": {"main": lambda r: [dict(input_1=r.standard_normal((1, 76, 32, 1)).astype(np.float32))]},
    "ppocr_cls": {"main": lambda r: [dict(x=image(r, 1, 3, 48, 192))]},
    "light_resnet50": {"main": lambda r: [{"gpu_0/data_0": image(r, 1, 3, 224, 224)}]},
}


def main():
    models, out = sys.argv[1], sys.argv[2]
    os.makedirs(out, exist_ok=True)
    ort.set_default_logger_severity(3)
    for model in sys.argv[3:] or CASES:
        session = None
        for case, feeds in CASES[model].items():
            path = f"{out}/{model}.{case}.npz"
            if os.path.exists(path):
                continue
            session = session or ort.InferenceSession(
                f"{models}/{model}.onnx", providers=["CPUExecutionProvider"])
            rng = np.random.default_rng(zlib.crc32(f"{model}/{case}".encode()))
            arrays = {}
            for k, feed in enumerate(feeds(rng)):
                arrays |= {f"in.{k}.{name}": value for name, value in feed.items()}
                answers = zip(session.get_outputs(), session.run(None, feed))
                arrays |= {f"out.{k}.{output.name}": value for output, value in answers}
            np.savez(path + ".part.npz", **arrays)
            os.replace(path + ".part.npz", path)
            print(f"reference {model} {case}", flush=True)


if __name__ == "__main__":
    main()
