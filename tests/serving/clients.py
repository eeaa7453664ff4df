"""Clients of Triton for the tests: requests from arrays, answers beside the references."""
import queue
import threading
import time

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.http as http
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

# As `reflex check`.
RTOL, ATOL = 1e-3, 1e-4


def feeds(refs, case):
    """Inputs and ONNX Runtime's outputs of a case, feed by feed."""
    found = np.load(refs / f"{case}.npz")
    count = 1 + max(int(key.split(".")[1]) for key in found)
    part = lambda side, k: {key.split(".", 2)[2]: found[key] for key in found
                            if key.startswith(f"{side}.{k}.")}
    return [(part("in", k), part("out", k)) for k in range(count)]


def inputs_of(module, feed):
    made = []
    for name, array in feed.items():
        # A scalar is one element.
        array = array.reshape(1) if array.ndim == 0 else array
        value = module.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        value.set_data_from_numpy(np.ascontiguousarray(array))
        made.append(value)
    return made


def infer(client, model, feed, **options):
    module = grpc if isinstance(client, grpc.InferenceServerClient) else http
    return client.infer(model, inputs_of(module, feed), **options)


def check_close(result, expected, what):
    for name, array in expected.items():
        got = result.as_numpy(name)
        assert got is not None and got.dtype == array.dtype, (what, name)
        got = got.reshape(array.shape) if array.ndim == 0 else got
        assert got.shape == array.shape, (what, name, got.shape, array.shape)
        assert np.allclose(got, array, rtol=RTOL, atol=ATOL), (what, name, np.abs(got - array).max())


def fails(call, *parts):
    try:
        call()
    except InferenceServerException as error:
        text = str(error)
        assert all(part in text for part in parts), (parts, text)
        return text
    raise AssertionError(f"no error: {parts}")


class Context:
    """A server with the test's models, and clients of it."""

    def __init__(self, server, repository, models, refs):
        self.server, self.repository, self.models, self.refs = server, repository, models, refs
        self.http, self.grpc = self.new_client(http), self.new_client(grpc)

    def new_client(self, module):
        if module is grpc:
            return grpc.InferenceServerClient(self.server.grpc)
        return http.InferenceServerClient(self.server.http, concurrency=32, network_timeout=300)


def in_threads(count, body):
    failures = queue.Queue()

    def guarded(at):
        try:
            body(at)
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            failures.put(error)

    threads = [threading.Thread(target=guarded, args=(at,)) for at in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not failures.empty():
        raise failures.get()


def counts(context, model, least=0):
    """Requests and runs of a model. A request counts after its answer is sent: `least` are waited for."""
    for _ in range(100):
        stats = context.http.get_inference_statistics(model)["model_stats"]
        found = sum(s["inference_count"] for s in stats), sum(s["execution_count"] for s in stats)
        if found[0] >= least:
            break
        time.sleep(0.05)
    return found
