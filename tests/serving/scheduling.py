"""Reflex's backend below Triton's schedulers: cancelled requests, priorities, limits of queues, the response cache,
instances, artifacts. `test_triton.py` runs these."""
import pathlib
import sys
import threading
import time

import numpy as np
import tritonclient.grpc as grpc

import triton
from clients import check_close, fails, feeds, in_threads, infer, inputs_of

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "python"))

QUEUE = """backend: "reflex"
max_batch_size: 1
dynamic_batching {
  priority_levels: 2
  default_priority_level: 2
  priority_queue_policy { key: 2 value { max_queue_size: 16 timeout_action: REJECT } }
}
"""
CACHED = 'backend: "reflex"\nresponse_cache { enable: true }\n'
TWO = 'backend: "reflex"\ninstance_group { count: 2 kind: KIND_CPU }\n'
GPU = 'backend: "reflex"\ninstance_group { count: 1 kind: KIND_GPU gpus: [ 0 ] }\n'
EM_AARCH64 = 183


def add_models(repository, models):
    """Puts the models of these tests into the repository."""
    import reflex

    artifact = repository.parent / "magika.so"
    reflex.load(models / "magika.onnx").save(artifact)
    triton.add_model(repository, "magika_artifact", artifact)
    # The ending of its name says the backend; it has no configuration.
    triton.add_model(repository, "magika.reflex", artifact, None)
    for name, config in (("magika_cached", CACHED), ("magika_two", TWO)):
        triton.add_model(repository, name, models / "magika.onnx", config)
    triton.add_model(repository, "minilm_queue", models / "minilm_l3_fp32.onnx", QUEUE)


def statistics(context, model):
    return context.http.get_inference_statistics(model)["model_stats"][0]


def sentences(rows):
    """A request that takes a while: rows of 512 tokens."""
    return {"input_ids": np.full((rows, 512), 1500), "attention_mask": np.ones((rows, 512), np.int64)}


class Asynchronous:
    """Requests of one connection that are under way together; their results in the order of their ends."""

    def __init__(self, context):
        self.client = grpc.InferenceServerClient(context.server.grpc)
        self.ended, self.sent = [], 0
        self._changed = threading.Condition()

    def send(self, model, feed, key, **options):
        def done(result, error):
            with self._changed:
                self.ended.append((key, result, error))
                self._changed.notify_all()
        self.sent += 1
        return self.client.async_infer(model, inputs_of(grpc, feed), done, **options)

    def wait(self):
        """Returns (key, result, error) of each request when all have ended."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.ended) == self.sent, 300), "requests are lost"
        return self.ended


def test_a_client_that_leaves(context):
    """A cancelled request ends its run early, and fails no other request."""
    def outcomes():
        stats = statistics(context, "minilm_batched")["inference_stats"]
        return {key: int(stats.get(key, {}).get("count", 0)) for key in ("success", "fail")}

    before, requests = outcomes(), Asynchronous(context)
    # A second or so, so that the run is under way when the client leaves.
    call = requests.send("minilm_batched", sentences(16), "gone")
    time.sleep(0.3)
    call.cancel()
    (_, _, error), = requests.wait()
    assert "CANCELLED" in str(error.status()), error
    end = time.monotonic() + 60
    while outcomes()["fail"] == before["fail"] and time.monotonic() < end:
        time.sleep(0.02)
    after = outcomes()
    assert after == {"success": before["success"], "fail": before["fail"] + 1}, (before, after)

    # One of a batch: the others stay.
    feed, expected = feeds(context.refs, "minilm_l3_fp32.main")[0]
    requests = Asynchronous(context)
    calls = [requests.send("minilm_batched", feed, at) for at in range(16)]
    calls[3].cancel()
    for key, result, error in requests.wait():
        if key != 3:
            assert error is None, error
            check_close(result, expected, f"beside a cancelled request, {key}")


def test_priorities(context):
    """A request of a higher priority goes before those that wait."""
    requests = Asynchronous(context)
    for at in range(12):
        requests.send("minilm_queue", sentences(1), at)
    requests.send("minilm_queue", sentences(1), "first", priority=1)
    ended = requests.wait()
    assert not [error for _, _, error in ended if error], ended
    order = [key for key, _, _ in ended]
    assert order.index("first") < 12, order
    print(f"    the last of 13 requests was number {order.index('first') + 1} to be answered")


def test_full_queues(context):
    """What is beyond a queue's limit is refused, and the rest answered."""
    alone = infer(context.grpc, "minilm_queue", sentences(1))
    expected = {output.name: alone.as_numpy(output.name) for output in alone.get_response().outputs}
    requests = Asynchronous(context)
    for at in range(40):
        requests.send("minilm_queue", sentences(1), at)
    refused = 0
    for key, result, error in requests.wait():
        if error is None:
            check_close(result, expected, f"request {key}")
        else:
            assert "UNAVAILABLE" in str(error.status()) and "queue size" in str(error), error
            refused += 1
    assert 0 < refused < 40, refused
    print(f"    {refused} of 40 requests refused")


def test_response_cache(context):
    """A request that was answered before is not run again."""
    cases = feeds(context.refs, "magika.batch") + feeds(context.refs, "magika.main")
    before = statistics(context, "magika_cached")
    for _ in range(3):
        for feed, expected in cases:
            check_close(infer(context.grpc, "magika_cached", feed), expected, "cached")
    after = statistics(context, "magika_cached")
    ran = int(after["execution_count"]) - int(before.get("execution_count", 0))
    hits = int(after["inference_stats"]["cache_hit"]["count"])
    assert (ran, hits) == (len(cases), 2 * len(cases)), (ran, hits)


def test_instances(context):
    """Instances share a program and answer side by side."""
    (feed, expected), = feeds(context.refs, "magika.main")

    def client(at):
        own = grpc.InferenceServerClient(context.server.grpc)
        for _ in range(20):
            check_close(infer(own, "magika_two", feed), expected, f"client {at}")
    in_threads(8, client)


def test_instances_on_a_gpu_need_one(context):
    """A model for a GPU does not load where there is none, and the server goes on."""
    triton.add_model(context.repository, "magika_gpu", context.models / "magika.onnx", GPU)
    text = fails(lambda: context.http.load_model("magika_gpu"), "magika_gpu")
    assert "GPU" in text or "cuda" in text, text


def test_artifacts(context):
    """An artifact answers as its model; one for another processor, or cut short, is refused by name."""
    for case in ("magika.main", "magika.batch"):
        for feed, expected in feeds(context.refs, case):
            check_close(infer(context.http, "magika_artifact", feed), expected, case)
    whole = (context.repository.parent / "magika.so").read_bytes()
    foreign = whole[:18] + EM_AARCH64.to_bytes(2, "little") + whole[20:]
    for name, content in (("foreign", foreign), ("short", whole[: len(whole) // 2])):
        file = context.repository.parent / f"{name}.so"
        file.write_bytes(content)
        triton.add_model(context.repository, name, file)
        print("    " + fails(lambda: context.http.load_model(name), "model.so")[:200])
    check_close(infer(context.http, "magika_artifact", feed), expected, "after artifacts that do not load")
