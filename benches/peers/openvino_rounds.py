#!/usr/bin/env python3
"""OpenVINO, one stream, latency hint: a round of calls for each line read from standard input.

usage: openvino_rounds.py MODEL REF.npz THREADS PRECISION      (needs openvino and numpy)

PRECISION is f32, or `default` for what OpenVINO takes by itself. The first answer, before any line,
is a JSON object: the precision that the compiled model has, and the root mean square of what its
float outputs differ by from the reference, as a part of that of the reference. A line is a duration
in seconds; the answer is one JSON list of microseconds, whole cycles of the feeds after an uncounted
one.
"""
import json
import sys
import time

import numpy as np
import openvino as ov


def read(path):
    """Feeds and reference outputs, one dictionary a case."""
    cases = {"in": {}, "out": {}}
    with np.load(path) as data:
        for key in data.files:
            kind, k, name = key.split(".", 2)
            if kind in cases:
                cases[kind].setdefault(int(k), {})[name] = data[key]
    feeds = [cases["in"][k] for k in sorted(cases["in"])]
    return feeds, [cases["out"].get(k, {}) for k in sorted(cases["in"])]


def main():
    model, cases, threads, precision = sys.argv[1:5]
    config = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": threads}
    if precision != "default":
        config["INFERENCE_PRECISION_HINT"] = precision
    compiled = ov.Core().compile_model(model, "CPU", config)
    request = compiled.create_infer_request()
    feeds, wanted = read(cases)
    clock = time.perf_counter_ns

    def call(feed):
        request.infer(feed, share_inputs=True, share_outputs=True)

    error = size = 0.0
    for feed, want in zip(feeds, wanted):
        call(feed)
        for name, values in want.items():
            if values.dtype == np.float32:
                got, values = np.float64(request.get_tensor(name).data), np.float64(values)
                error += np.square(got - values).sum()
                size += np.square(values).sum()
    error = np.sqrt(error / size) if size else None
    used = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    print(json.dumps({"precision": used, "error": error}), flush=True)
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
