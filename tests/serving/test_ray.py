"""Reflex on a Ray cluster of two nodes on this machine: a data set, a service, an actor that dies.

usage: test_ray.py MODELS REFS [ROWS]        (of ray and reflex)
"""
import os
import pathlib
import signal
import sys

import numpy as np
import ray
from ray import serve
from ray.cluster_utils import Cluster

import reflex
import reflex.ray

RTOL, ATOL = 1e-3, 1e-4


class Mortal(reflex.ray.Predictor):
    """A predictor whose process ends once, in the middle of the work."""

    def __init__(self, *args, grave, **options):
        super().__init__(*args, **options)
        self._grave = pathlib.Path(grave)
        self._calls = 0

    def __call__(self, batch):
        self._calls += 1
        if self._calls == 5:
            try:
                self._grave.touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(batch)


def rows_of(count):
    return np.random.default_rng(3).integers(0, 257, (count, 2048)).astype(np.int32)


def check(results, expected):
    for name, wanted in expected.items():
        assert np.allclose(results[name], wanted, rtol=RTOL, atol=ATOL), name


def direct(model, rows):
    """Reflex without Ray."""
    session = reflex.load(model).session()
    parts = [session.run({"bytes": rows[at : at + 64]}) for at in range(0, len(rows), 64)]
    return {name: np.concatenate([np.array(part[name]) for part in parts]) for name in parts[0]}


def test_map_batches(model, rows, expected, grave):
    """Every row is answered once, also those of an actor that was killed."""
    data = ray.data.from_items([{"id": at, "bytes": row} for at, row in enumerate(rows)])
    predicted = data.map_batches(
        Mortal, fn_constructor_args=[model], fn_constructor_kwargs={"grave": grave, "keep": ["id"]},
        batch_size=16, compute=ray.data.ActorPoolStrategy(size=2), num_cpus=1)
    answers = {row["id"]: row for row in predicted.iter_rows()}
    assert pathlib.Path(grave).exists(), "no actor was killed"
    assert sorted(answers) == list(range(len(rows)))
    got = {name: np.stack([answers[at][name] for at in range(len(rows))]) for name in expected}
    check(got, expected)


def test_service(model, rows, expected):
    """Requests of many callers are batched, and each gets its own answer or its own error."""
    handle = serve.run(reflex.ray.deployment(model, serve_options={"num_replicas": 2}))
    for first in range(0, len(rows), 256):
        part = range(first, min(first + 256, len(rows)))
        pending = [handle.remote({"bytes": rows[at : at + 1]}) for at in part]
        wrong = handle.remote({"octets": rows[:1]})
        got = [answer.result() for answer in pending]
        for at, answer in zip(part, got):
            check(answer, {name: values[at : at + 1] for name, values in expected.items()})
        try:
            wrong.result()
        except Exception as error:  # noqa: BLE001 - Ray wraps it
            assert "bytes" in str(error), error
        else:
            raise AssertionError("no error")
    serve.shutdown()


def main():
    models, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    rows = rows_of(int(sys.argv[3]) if len(sys.argv) > 3 else 2000)
    model = str(folder / "magika.so")
    reflex.load(models / "magika.onnx").save(model)
    expected = direct(model, rows)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    cluster.add_node(num_cpus=2)
    ray.init(address=cluster.address, log_to_driver=False)
    assert len(ray.nodes()) == 2
    print(f"test_map_batches: {test_map_batches.__doc__}", flush=True)
    test_map_batches(model, rows, expected, str(folder / "grave"))
    print(f"test_service: {test_service.__doc__}", flush=True)
    test_service(model, rows, expected)
    ray.shutdown()
    cluster.shutdown()
    print(f"{len(rows)} rows\ndone")


if __name__ == "__main__":
    main()
