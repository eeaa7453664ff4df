"""Reflex's backend under many clients: every model, batches on and off, sequences, models that come and go, warm-up.
`test_triton.py` runs these."""
import os
import time

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.http as http
from tritonclient.utils import InferenceServerException

import triton
from clients import check_close, counts, fails, feeds, in_threads, infer

CLIENTS = (1, 4, 16)
STEPS = 6

BATCHED = """backend: "reflex"
max_batch_size: 16
dynamic_batching { max_queue_delay_microseconds: 5000 }
"""
WARM = """model_warmup {
  name: "one" batch_size: 1
  inputs { key: "input_ids" value { data_type: TYPE_INT64 dims: LENGTH zero_data: true } }
  inputs { key: "attention_mask" value { data_type: TYPE_INT64 dims: LENGTH zero_data: true } }
}
"""
ALONE = 'backend: "reflex"\nmax_batch_size: 1\n'


def add_models(repository, models):
    """Puts the models of these tests into the repository."""
    minilm = models / "minilm_l3_fp32.onnx"
    triton.add_model(repository, "minilm_batched", minilm, BATCHED + WARM.replace("LENGTH", "16"))
    triton.add_model(repository, "minilm_alone", minilm, ALONE)
    triton.add_model(repository, "magika_batched", models / "magika.onnx", BATCHED)
    triton.add_model(repository, "magika_alone", models / "magika.onnx", ALONE)
    triton.add_model(repository, "magika_leaves", models / "magika.onnx")


def new_client(context, at):
    """A client for one thread: gRPC for two of four threads, HTTP for the others."""
    # A client belongs to the thread that makes it.
    return context.new_client(grpc if at // 2 % 2 == 0 else http)


def rows_of(cases):
    """Each row of each case as a case of its own."""
    part = lambda arrays, row: {name: array[row : row + 1] for name, array in arrays.items()}
    return [(part(feed, row), part(expected, row)) for feed, expected in cases
            for row in range(len(next(iter(feed.values()))))]


def test_batches(context):
    """Requests of many clients over both protocols, together and one by one: each gets its own rows."""
    refs = context.refs
    sentences = feeds(refs, "minilm_l3_fp32.sweep") + feeds(refs, "minilm_l3_fp32.main")
    files = rows_of(feeds(refs, "magika.main") + feeds(refs, "magika.batch"))
    # The first dimension of light_resnet50 is a number, so it has no batches.
    images = feeds(refs, "light_resnet50.main")
    for model, cases, each, batched in (
            ("minilm_batched", sentences, 12, True), ("minilm_alone", sentences, 12, False),
            ("magika_batched", files, 12, True), ("magika_alone", files, 12, False),
            ("light_resnet50", images, 3, False)):
        before = counts(context, model)
        for clients in CLIENTS:
            def client(at):
                own = new_client(context, at)
                for k in range(each):
                    feed, expected = cases[(at % 2 + k // 4) % len(cases)]
                    check_close(infer(own, model, feed), expected, f"{model}, client {at}")
            in_threads(clients, client)
        after = counts(context, model, before[0] + each * sum(CLIENTS))
        requests, runs = after[0] - before[0], after[1] - before[1]
        assert requests == each * sum(CLIENTS), requests
        assert runs < requests if batched else runs == requests, (model, requests, runs)
        print(f"    {model}: {requests} requests in {runs} runs")


def test_large_outputs(context):
    """Outputs of more than 64 KiB, which kernels write into the response of a request that is alone: the same bits
    through both protocols, without dynamic batches, and in a batch, whose rows are copied."""
    (feed, expected), = feeds(context.refs, "minilm_l3_fp32.main")
    name, length = max(expected, key=lambda key: expected[key].nbytes), 128
    tokens = {key: np.tile(array[:1], (1, length))[:, :length] for key, array in feed.items()}
    rows = {key: np.concatenate([array, array]) for key, array in tokens.items()}
    single = []
    for model in ("minilm_l3_fp32", "minilm_alone"):
        for client in (context.http, context.grpc):
            single += [infer(client, model, tokens).as_numpy(name).copy() for _ in range(3)]
    assert single[0].nbytes > 65536 and np.isfinite(single[0]).all(), single[0].nbytes
    assert all(np.array_equal(single[0], other) for other in single)
    for client in (context.http, context.grpc):
        check_close(infer(client, "minilm_batched", rows), {name: np.concatenate([single[0]] * 2)}, "two rows")


def test_precision_and_tier(context):
    """Requests on models with `precision`, `tier`, `mode` and `threads` set are answered."""
    (feed, expected), = feeds(context.refs, "magika.main")
    parameter = 'parameters {{ key: "{}" value {{ string_value: "{}" }} }}\n'
    for at, (key, value) in enumerate((("precision", "f32-fast"), ("tier", "threshold=2,compile=sync"),
                                       ("mode", "compiled"), ("threads", "2"))):
        name = f"magika_set_{at}"
        config = 'backend: "reflex"\n' + parameter.format(key, value)
        triton.add_model(context.repository, name, context.models / "magika.onnx", config)
        context.http.load_model(name)
        for _ in range(3):
            check_close(infer(context.grpc, name, feed), expected, f"{key} = {value}")
        context.http.unload_model(name)


def test_sequences(context):
    """The state of each sequence is kept between its requests, one, four and sixteen sequences at a time."""
    import onnxruntime

    reference = onnxruntime.InferenceSession(str(context.models / "silero_vad.onnx"))
    rate = np.array(16000, np.int64)

    def sequence(own, model, id):
        random, state = np.random.default_rng(id), np.zeros((2, 1, 128), np.float32)
        for step in range(STEPS):
            sound = random.standard_normal((1, 576)).astype(np.float32) * 0.1
            expected, state = reference.run(None, dict(input=sound, state=state, sr=rate))
            result = infer(own, model, dict(input=sound, sr=rate), sequence_id=id, sequence_start=step == 0,
                           sequence_end=step == STEPS - 1)
            check_close(result, {"output": expected}, f"{model}, sequence {id}, step {step}")

    for model in ("silero_sequences", "silero_direct"):
        for clients in CLIENTS:
            def client(at):
                own = new_client(context, at)
                for k in range(2):
                    sequence(own, model, 1000 * clients + 10 * at + k + 1)
            in_threads(clients, client)


def test_unload_under_load(context):
    """During ten unloads each request is answered, right or as one to a model that is not there."""
    (feed, expected), = feeds(context.refs, "magika.main")
    ended, answered, refused = [], [], []

    def client(at):
        if at == 0:
            manager = http.InferenceServerClient(context.server.http, network_timeout=300)
            try:
                for _ in range(10):
                    manager.unload_model("magika_leaves")
                    manager.load_model("magika_leaves")
                    time.sleep(0.2)
            finally:
                ended.append(True)
            return
        own = new_client(context, at)
        while not ended:
            try:
                result = infer(own, "magika_leaves", feed)
            except InferenceServerException as error:
                text = error.message()
                assert "magika_leaves" in text and ("unknown model" in text or "ready" in text), text
                refused.append(at)
                time.sleep(0.01)
                continue
            check_close(result, expected, "around an unload")
            answered.append(at)
    in_threads(5, client)
    assert answered and refused, (len(answered), len(refused))
    print(f"    {len(answered)} answered, {len(refused)} refused while the model was not there")


def test_warm_up(context):
    """What the shapes of `model_warmup` need is compiled before the model is ready, and nothing later."""
    folder, length = context.repository.parent, 24
    feed = {"input_ids": np.full((1, length), 1500), "attention_mask": np.ones((1, length), np.int64)}
    compiled = {}
    for name, warm_up in (("cold", ""), ("warm", WARM.replace("LENGTH", str(length)))):
        # A server of its own: with a new cache of kernels, in whose folder each compiled kernel is a file.
        cache = folder / f"cache-{name}"
        triton.add_model(folder / name, "minilm", context.models / "minilm_l3_fp32.onnx", ALONE + warm_up)
        server = triton.Triton(folder / name, folder / "backends", folder / f"{name}.log", REFLEX_CACHE=str(cache))
        with server:
            client = grpc.InferenceServerClient(server.grpc)
            files = lambda: sum(len(names) for _, _, names in os.walk(cache))
            before = files()
            for _ in range(30):
                infer(client, "minilm", feed)
            compiled[name] = (before, files())
    assert compiled["warm"][0] == compiled["warm"][1] > compiled["cold"][0] > 0, compiled
    print(f"    kernels when ready: {compiled['cold'][0]}, with a warm-up {compiled['warm'][0]}")


def test_a_bad_warm_up(context):
    """A warm-up without the shape of an input is refused by name."""
    bad = BATCHED + 'model_warmup { name: "none" batch_size: 1 }\n'
    triton.add_model(context.repository, "minilm_bad", context.models / "minilm_l3_fp32.onnx", bad)
    fails(lambda: context.http.load_model("minilm_bad"), "none", "input_ids")
