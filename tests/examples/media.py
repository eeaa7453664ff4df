#!/usr/bin/env python3
"""Writes what the examples read, the same bytes each time: a voice, a line and a page of digits, and
a vocabulary.

usage: media.py FOLDER      (needs the standard library alone)
"""
import json
import math
import pathlib
import struct
import sys
import wave

RATE = 16000
# The first three formants of four vowels, in hertz.
VOWELS = [(700, 1220, 2600), (300, 2300, 3000), (500, 900, 2500), (400, 2000, 2550)]
# Digits of 5 by 7 dots, a number for each row.
DIGITS = [
    (14, 17, 17, 17, 17, 17, 14), (4, 12, 4, 4, 4, 4, 14), (14, 17, 1, 2, 4, 8, 31),
    (31, 2, 4, 2, 1, 17, 14), (2, 6, 10, 18, 31, 2, 2), (31, 16, 30, 1, 1, 17, 14),
    (6, 8, 16, 30, 17, 17, 14), (31, 1, 2, 4, 8, 8, 8), (14, 17, 17, 14, 17, 17, 14),
    (14, 17, 17, 15, 1, 2, 12),
]
# Words of BERT's uncased vocabulary, by number; the lines between are fillers.
WORDS = {
    0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 999: "!", 1012: ".", 1037: "a", 1996: "the",
    2003: "is", 2008: "that", 2015: "##s", 2154: "day", 2200: "very", 2651: "today", 2711: "person",
    3407: "happy", 3899: "dog", 11559: "sunny",
}


def voice():
    """Six seconds: vowels of four syllables a second from 1 to 2.5 and from 4 to 5, else faint noise."""
    samples, phase, random = [], 0.0, 1
    past = [[0.0, 0.0] for _ in range(3)]
    for at in range(6 * RATE):
        t = at / RATE
        random = (random * 1103515245 + 12345) & 0x7FFFFFFF
        noise = random / 0x7FFFFFFF - 0.5
        loud = math.sin(math.pi * (4 * t % 1)) ** 2 if 1 <= t < 2.5 or 4 <= t < 5 else 0.0
        phase += (120 + 20 * math.sin(1.4 * math.pi * t)) / RATE
        pulse, phase = float(phase >= 1), phase % 1
        value = 0.001 * noise
        for k, hertz in enumerate(VOWELS[int(4 * t) % 4]):
            decay = math.exp(-math.pi * (80 + 40 * k) / RATE)
            turn = 2 * decay * math.cos(2 * math.pi * hertz / RATE)
            new = (pulse + 0.02 * noise) * loud + turn * past[k][0] - decay * decay * past[k][1]
            past[k] = [new, past[k][0]]
            value += 2 * (1 - decay) * new * (1.0, 0.6, 0.3)[k]
        samples.append(round(max(-1.0, min(1.0, value)) * 32767))
    return struct.pack(f"<{len(samples)}h", *samples)


def digits(width, height, size, lines):
    """A white image with black digits, dots of `size` pixels: rows of three bytes a pixel."""
    image = [bytearray(b"\xff" * (3 * width)) for _ in range(height)]
    for left, top, digit in lines:
        for row in range(7 * size):
            for column in range(5 * size):
                if DIGITS[digit][row // size] >> (4 - column // size) & 1:
                    at = 3 * (left + column)
                    image[top + row][at : at + 3] = b"\x00\x00\x00"
    return image


def write_ppm(path, image):
    header = f"P6\n{len(image[0]) // 3} {len(image)}\n255\n"
    path.write_bytes(header.encode() + b"".join(image))


def main():
    folder = pathlib.Path(sys.argv[1])
    with wave.open(str(folder / "voice.wav"), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", None))
        file.writeframes(voice())
    line = [(8 + 24 * at, 10, at * 7 % 10) for at in range(19)]
    write_ppm(folder / "line.ppm", digits(464, 48, 4, line))
    page = [(20 + 14 * at, 20 + 24 * row, (3 * at + row * row) % 10)
            for row in range(12) for at in range(20 - row % 3 * 4)]
    write_ppm(folder / "page.ppm", digits(320, 320, 2, page))
    turned = [bytes(b for x in range(320) for b in row[3 * (319 - x) : 3 * (320 - x)])
              for row in reversed(digits(320, 320, 2, page))]
    write_ppm(folder / "turned.ppm", turned)
    words = [WORDS.get(number, f"[unused{number}]") for number in range(max(WORDS) + 1)]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    vocab = {word: number for number, word in WORDS.items()}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "WordPiece", "vocab": vocab}}))


if __name__ == "__main__":
    main()
