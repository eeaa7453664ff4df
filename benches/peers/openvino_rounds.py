#!/usr/bin/env python3
"""OpenVINO, one stream, latency hint: a round of calls for each line read from standard input.

usage: openvino_rounds.py MODEL REF.npz THREADS PRECISION      (needs openvino and numpy)

A line is a duration in seconds; the answer is one JSON list of microseconds, whole cycles of the
feeds after an uncounted one. The first answer, before any line, is "ready".
"""
import json
import sys
import time

import numpy as np
import openvino as ov


def main():
    model, cases, threads, precision = sys.argv[1:5]
    config = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1",
              "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": precision}
    request = ov.Core().compile_model(model, "CPU", config).create_infer_request()
    feeds = {}
    with np.load(cases) as data:
        for key in data.files:
            kind, k, name = key.split(".", 2)
            if kind == "in":
                feeds.setdefault(int(k), {})[name] = data[key]
    feeds = [feeds[k] for k in sorted(feeds)]
    clock = time.perf_counter_ns

    def call(feed):
        request.infer(feed, share_inputs=True, share_outputs=True)

    for feed in feeds:
        call(feed)
    print("ready", flush=True)
    for line in sys.stdin:
        end = clock() + float(line) * 1e9
        for feed in feeds:
            call(feed)
        sample = []
        while not sample or clock() < end:
            for feed in feeds:
                start = clock()
                call(feed)
                sample.append((clock() - start) / 1e3)
        print(json.dumps(sample), flush=True)


main()
