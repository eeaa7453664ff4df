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


def typed_sentence(rng, length):
    return dict(sentence(rng, length), token_type_ids=np.zeros((1, length), np.int64))


def line(rng, width, batch=1):
    return dict(x=image(rng, batch, 3, 48, width))


def letters(rng, length):
    return dict(char_inputs=rng.integers(1, 54, (1, length)).astype(np.int64),
                diac_inputs=rng.integers(1, 16, (1, length)).astype(np.int64),
                input_lengths=np.array([length], np.int64))


def features(rng, rows):
    return dict(input=rng.uniform(0, 50, (rows, 4)).astype(np.float32))


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
    "light_squeezenet": {"main": lambda r: [{"data_0": image(r, 1, 3, 224, 224)}]},
    "light_densenet121": {"main": lambda r: [{"data_0": image(r, 1, 3, 224, 224)}]},
    "light_shufflenet": {"main": lambda r: [{"gpu_0/data_0": image(r, 1, 3, 224, 224)}]},
    "ppocr4_det": {"sizes": lambda r: [dict(x=image(r, 1, 3, h, w)) for h, w in ((320, 480), (96, 64))]},
    "ppocr4_rec": {"sweep": lambda r: [line(r, w) for w in (160, 320, 96)],
                   "batch": lambda r: [line(r, 160, 3)]},
    "ddddocr_crnn": {"main": lambda r: [dict(input1=image(r, 1, 1, 64, w)) for w in (160, 104)]},
    "nudenet_yolov8n": {"main": lambda r: [dict(images=r.uniform(0, 1, (1, 3, 320, 320)).astype(np.float32))]},
    "open_nsfw_resnet50": {"main": lambda r: [{"input:0": r.uniform(-110, 140, (1, 224, 224, 3)).astype(np.float32)}]},
    "basic_pitch": {"main": lambda r: [{"serving_default_input_2:0": speech(r, 43844, 22050)[..., None]}]},
    "oww_melspec": {"main": lambda r: [dict(input=32767 * speech(r, n)) for n in (1760, 1280)]},
    "oww_hey_jarvis": {"main": lambda r: [{"x.1": 10 * r.standard_normal((1, 16, 96)).astype(np.float32)}]},
    "minilm_l6_int8w": {"sweep": lambda r: [typed_sentence(r, n) for n in (16, 128, 7)]},
    "nakdimon_loop": {"main": lambda r: [dict(input_1=r.integers(1, 43, (1, n)).astype(np.float32)) for n in (64, 17)]},
    "tashkeel": {"sweep": lambda r: [letters(r, n) for n in (64, 20, 90)]},
    "surfaces_mlp": {"rows": lambda r: [features(r, n) for n in (1, 256)]},
    "surfaces_tree": {"rows": lambda r: [features(r, n) for n in (1, 256)]},
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
