"""Reflex's backend in Triton Inference Server: answers, batches, sequences, errors, reloads.

usage: test_triton.py BACKEND_LIBRARY MODELS REFS [TEST...]     (of tritonclient and nvidia-pytriton)
"""
import functools
import os
import pathlib
import shutil
import sys
import tempfile
import threading
import time

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.http as http
from tritonclient.utils import InferenceServerException

import loads
import scheduling
import serve
import triton
from clients import Context, check_close, fails, feeds, in_threads, infer, inputs_of


def test_answers(context):
    """Both protocols give the answers of the reference, for every length and number of rows."""
    for case in ("magika.main", "magika.batch", "minilm_l3_fp32.sweep", "light_resnet50.main",
                 "silero_vad.rates"):
        for k, (feed, expected) in enumerate(feeds(context.refs, case)):
            for client in (context.http, context.grpc):
                model = case.split(".")[0]
                check_close(infer(client, model, feed), expected, f"{case} {k}")


def test_completed_configuration(context):
    """Inputs, outputs and batches come from the signature."""
    config = context.http.get_model_config("magika")
    assert config["max_batch_size"] == 4 and "dynamic_batching" in config, config
    assert config["input"][0]["dims"] == [2048], config
    unwritten = context.http.get_model_config("magika.reflex")
    assert unwritten["backend"] == "reflex", unwritten
    assert [unwritten[key] for key in ("input", "output", "max_batch_size")] == \
        [config[key] for key in ("input", "output", "max_batch_size")], unwritten
    (feed, expected), = feeds(context.refs, "magika.main")
    check_close(infer(context.grpc, "magika.reflex", feed), expected, "without a configuration")
    config = context.http.get_model_config("silero_vad")
    assert config["max_batch_size"] == 0, config
    rate = next(entry for entry in config["input"] if entry["name"] == "sr")
    assert rate["dims"] == [1], rate


def test_the_lines_of_serve(context):
    """What `./x serve` prints for its models is answered."""
    for model in ("magika", "minilm_l3_fp32", "light_resnet50", "silero_vad"):
        line = serve.line_of(context.server, model, context.repository.parent)
        assert line.startswith("curl"), line


def test_bad_requests(context):
    """What does not fit is refused by name, and the server goes on."""
    (feed, expected), = feeds(context.refs, "magika.main")
    data = feed["bytes"]
    fails(lambda: infer(context.http, "magika", {"octets": data}), "octets")
    fails(lambda: infer(context.http, "magika", {"bytes": data.astype(np.int64)}), "bytes")
    fails(lambda: infer(context.http, "magika", {"bytes": data[:, :100]}), "bytes")
    fails(lambda: infer(context.http, "magika", {"bytes": np.repeat(data, 5, 0)}), "batch")
    fails(lambda: infer(context.http, "nothing", feed), "nothing")
    # Symbols that must agree: what the configuration cannot say.
    (sentence, _), *_ = feeds(context.refs, "minilm_l3_fp32.sweep")
    shorter = dict(sentence, attention_mask=sentence["attention_mask"][:, :-1])
    fails(lambda: infer(context.http, "minilm_l3_fp32", shorter), "attention_mask", "dimension 1")
    check_close(infer(context.http, "magika", feed), expected, "after errors")


def test_a_failing_request_fails_alone(context):
    """In a batch with a request whose index is out of range, the others are answered."""
    cases = feeds(context.refs, "minilm_l3_fp32.main")
    feed, expected = cases[0]
    wrong = dict(feed, input_ids=np.full_like(feed["input_ids"], 2_000_000))

    def client(at):
        own = grpc.InferenceServerClient(context.server.grpc)
        for _ in range(6):
            if at == 3:
                fails(lambda: infer(own, "minilm_batched", wrong))
            else:
                check_close(infer(own, "minilm_batched", feed), expected, f"client {at}")
    in_threads(8, client)


def test_models_that_do_not_load(context):
    """Errors name the reason; a model that loads later is served."""
    broken = context.repository.parent / "broken.onnx"
    broken.write_bytes(b"no model")
    triton.add_model(context.repository, "broken", broken)
    fails(lambda: context.http.load_model("broken"), "model.onnx")
    triton.add_model(context.repository, "broken", context.models / "magika.onnx",
                     'backend: "reflex"\nparameters { key: "tread" value { string_value: "2" } }\n')
    fails(lambda: context.http.load_model("broken"), "tread", "threads")
    triton.add_model(context.repository, "broken", context.models / "magika.onnx",
                     'backend: "reflex"\ninput { name: "octets" data_type: TYPE_INT32 dims: 2048 }\n')
    fails(lambda: context.http.load_model("broken"), "octets", "bytes")
    triton.add_model(context.repository, "broken", context.models / "magika.onnx")
    context.http.load_model("broken")
    (feed, expected), = feeds(context.refs, "magika.main")
    check_close(infer(context.http, "broken", feed), expected, "repaired")


def test_timeouts(context):
    """A run that takes longer than its model or its client allows fails, and no other."""
    (feed, expected), = feeds(context.refs, "light_resnet50.main")
    fails(lambda: infer(context.grpc, "resnet_hasty", feed), "deadline")
    fails(lambda: infer(context.grpc, "light_resnet50", feed, timeout=1), "deadline")
    check_close(infer(context.grpc, "light_resnet50", feed), expected, "after a timeout")


def reload(client, context, model):
    """Has the server load a model again, which it does only if the model's own file has changed."""
    file = context.repository / model / "1" / "model.onnx"
    if file.is_symlink():
        shutil.copy(file, file.with_suffix(".copy"))
        file.with_suffix(".copy").rename(file)
    file.touch()
    client.load_model(model)


def test_reload_under_load(context):
    """Requests during ten reloads are all answered."""
    (feed, expected), = feeds(context.refs, "magika.main")
    ended, answered = threading.Event(), []

    def client(at):
        if at == 0:
            # A client belongs to the thread that makes it.
            manager = http.InferenceServerClient(context.server.http, network_timeout=300)
            try:
                for _ in range(10):
                    reload(manager, context, "magika")
            finally:
                ended.set()
            return
        own = grpc.InferenceServerClient(context.server.grpc)
        while not ended.is_set():
            check_close(infer(own, "magika", feed), expected, "during a reload")
            answered.append(at)
    in_threads(5, client)
    print(f"    {len(answered)} requests during ten reloads")


def test_memory_is_flat(context):
    """Many requests, with reloads among them, take no more memory than few, and none is lost."""
    count = int(os.environ.get("REFLEX_SOAK_REQUESTS", "4000"))
    cases = feeds(context.refs, "silero_vad.rates")

    def requests(number):
        """Asynchronous requests of one connection, at most 64 at a time."""
        own = grpc.InferenceServerClient(context.server.grpc)
        room, failures, answered = threading.Semaphore(64), [], [0]

        def done(expected, result, error):
            if error is not None:
                failures.append(error)
            else:
                check_close(result, expected, "soak")
                answered[0] += 1
            room.release()

        prepared = [(inputs_of(grpc, feed), functools.partial(done, expected)) for feed, expected in cases]
        for at in range(number):
            room.acquire()
            value, callback = prepared[at % len(prepared)]
            own.async_infer("silero_vad", value, callback)
            if at % (number // 10) == number // 20:
                reload(context.http, context, "silero_vad")
        for _ in range(64):
            room.acquire()
        assert not failures, failures[0]
        assert answered[0] == number, (answered, number)

    def resident():
        requests(1000)
        return context.server.resident_kib()

    # What is allocated once: threads, arenas, the reloads' programs. What the allocator keeps of a reload while 64
    # requests wait varies by 20 MiB, up and down: the most of three rounds before, the least of three after.
    before = max(resident() for _ in range(3))
    start = time.monotonic()
    requests(count)
    taken = time.monotonic() - start
    grown = min(resident() for _ in range(3)) - before
    print(f"    {count} requests in {taken:.0f} s, {grown} KiB more, of {before}")
    assert grown < 20_000, grown


def test_a_killed_server_loses_nothing(context):
    """Of two servers one is killed: clients that try the other again get every answer."""
    (feed, expected), = feeds(context.refs, "magika.main")
    folder = context.repository.parent
    second = triton.Triton(context.repository, folder / "backends", folder / "second.log",
                           ["--model-control-mode=explicit", "--load-model=magika"])
    with second:
        addresses = [second.grpc, context.server.grpc]
        answered, retried = [], []

        def client(at):
            clients = [grpc.InferenceServerClient(address) for address in addresses]
            for k in range(100):
                if at == 0 and k == 20:
                    second.process.kill()
                for own in clients[k % 2:] + clients[:k % 2]:
                    try:
                        result = infer(own, "magika", feed)
                        break
                    except InferenceServerException as error:
                        assert "UNAVAILABLE" in str(error.status()), error
                        retried.append(at)
                check_close(result, expected, f"client {at}, request {k}")
                answered.append(at)
        in_threads(4, client)
    assert len(answered) == 400 and retried, (len(answered), len(retried))
    print(f"    400 answers, {len(retried)} of them at the second try")


HASTY = 'backend: "reflex"\nparameters { key: "timeout_ms" value { string_value: "0" } }\n'
SEQUENCES = """backend: "reflex"
sequence_batching {
  max_sequence_idle_microseconds: 60000000
  STRATEGY
  state {
    input_name: "state" output_name: "stateN" data_type: TYPE_FP32 dims: [ 2, 1, 128 ]
    initial_state { name: "silence" data_type: TYPE_FP32 dims: [ 2, 1, 128 ] zero_data: true }
  }
}
"""


def main():
    library, models, refs, *only = sys.argv[1:]
    models, refs = pathlib.Path(models), pathlib.Path(refs)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        repository = folder / "models"
        backends = triton.install_backend(library, folder / "backends")
        for name in ("magika", "minilm_l3_fp32", "light_resnet50", "silero_vad"):
            triton.add_model(repository, name, models / f"{name}.onnx")
        loads.add_models(repository, models)
        triton.add_model(repository, "resnet_hasty", models / "light_resnet50.onnx", HASTY)
        oldest = SEQUENCES.replace("STRATEGY", "oldest { max_candidate_sequences: 64 }")
        triton.add_model(repository, "silero_sequences", models / "silero_vad.onnx", oldest)
        # A sequence keeps an instance until it ends.
        direct = SEQUENCES.replace("STRATEGY", "direct {}") + "instance_group { count: 3 kind: KIND_CPU }\n"
        triton.add_model(repository, "silero_direct", models / "silero_vad.onnx", direct)
        scheduling.add_models(repository, models)
        names = [path.name for path in repository.iterdir()]
        explicit = ["--model-control-mode=explicit", *(f"--load-model={name}" for name in names)]
        explicit += triton.CACHE
        log = pathlib.Path(os.environ.get("REFLEX_SERVING_LOG", folder / "triton.log"))
        all_names = {**vars(loads), **vars(scheduling), **globals()}
        tests = {name: test for name, test in all_names.items() if name.startswith("test_")}
        with triton.Triton(repository, backends, log, explicit) as server:
            context = Context(server, repository, models, refs)
            unready = [name for name in names if not context.http.is_model_ready(name)]
            assert not unready, f"not loaded: {unready}\n{log.read_text()[-6000:]}"
            for name, test in tests.items():
                if only and name not in only:
                    continue
                print(f"{name}: {test.__doc__}", flush=True)
                test(context)
    print("done")


if __name__ == "__main__":
    main()
