"""Models in Triton Inference Server: Reflex's backend, Triton's Python backend with ONNX Runtime, a backend that
computes nothing, and both engines called directly. Writes a Markdown table.

usage: serving.py BACKEND_LIBRARY LIBREFLEX MODELS [SECONDS [MODEL...]]     (of `./x test --serving`'s environment)

One instance with one thread for each model. The client (serving_client.c) keeps so many requests under way, each on a
connection of its own. Runs of the backends alternate, three times; a figure is the median. Processor times are the server's,
which a busy machine changes less than the clock. The backend that computes nothing (serving_nothing.c) shows what
Triton and the client cost, which no backend can be faster than.
"""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests/serving"))
CLIENTS = (1, 4, 16)
MODELS = ("magika", "minilm_l3_fp32", "light_resnet50", "silero_vad")
BACKENDS = ("own", "ort", "nothing")
ROUNDS = 3


def feed(model):
    """One request of a model."""
    random = np.random.default_rng(1)
    if model == "magika":
        return {"bytes": random.integers(0, 256, (1, 2048)).astype(np.int32)}
    if model == "minilm_l3_fp32":
        return {"input_ids": random.integers(1000, 2000, (1, 64)), "attention_mask": np.ones((1, 64), np.int64)}
    if model == "light_resnet50":
        return {"gpu_0/data_0": random.standard_normal((1, 3, 224, 224)).astype(np.float32)}
    return {"input": random.standard_normal((1, 576)).astype(np.float32),
            "state": np.zeros((2, 1, 128), np.float32), "sr": np.array(16000, np.int64)}


BATCHING = "max_batch_size: 16\ndynamic_batching { max_queue_delay_microseconds: 500 }\n"
ONE = "instance_group { count: 1 kind: KIND_CPU }\n"

PYTHON_MODEL = '''
import sys
sys.path.append("SITE")
import numpy as np
import onnxruntime
import triton_python_backend_utils as utils

class TritonPythonModel:
    def initialize(self, args):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession("MODEL", options)
        self.scalars = {i.name for i in self.session.get_inputs() if not i.shape}

    def execute(self, requests):
        names = [i.name for i in self.session.get_inputs()]
        outputs = [o.name for o in self.session.get_outputs()]
        take = lambda r, n: utils.get_input_tensor_by_name(r, n).as_numpy()
        feeds = [{n: take(r, n).reshape(()) if n in self.scalars else take(r, n) for n in names} for r in requests]
        if len(feeds) > 1:
            feed = {n: np.concatenate([f[n] for f in feeds]) for n in names}
        else:
            feed = feeds[0]
        results, at, responses = self.session.run(outputs, feed), 0, []
        for one in feeds:
            rows = len(one[names[0]])
            part = results if len(feeds) == 1 else [r[at:at + rows] for r in results]
            responses.append(utils.InferenceResponse([utils.Tensor(n, p) for n, p in zip(outputs, part)]))
            at += rows
        return responses
'''


def python_config(model, batched):
    """A configuration for the Python backend, from what ONNX Runtime says of the model."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(model))
    types = {"float": "FP32", "int64": "INT64", "int32": "INT32"}
    text = 'backend: "python"\n' + ONE + (BATCHING if batched else "")
    for side, ports in (("input", session.get_inputs()), ("output", session.get_outputs())):
        for port in ports:
            dims = [size if isinstance(size, int) else -1 for size in port.shape][batched:] or [1]
            kind = types[port.type.removeprefix("tensor(").removesuffix(")")]
            text += f'{side} {{ name: "{port.name}" data_type: TYPE_{kind} dims: {dims} }}\n'
    return text


def processor_seconds(pid):
    """User and system time of a process and its children, which the Python backend runs models in."""
    total, waiting = 0, [pid]
    while waiting:
        pid = waiting.pop()
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except OSError:
            pass
    return total / os.sysconf("SC_CLK_TCK")


def request_file(server, name, model):
    """Writes a whole request of HTTP for the client, tensors in binary, and returns its path."""
    import tritonclient.http as http
    from tritonclient.utils import np_to_triton_dtype

    value = []
    for key, array in feed(model).items():
        array = array.reshape(array.shape or (1,))
        tensor = http.InferInput(key, list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array)
        value.append(tensor)
    body, header = http.InferenceServerClient.generate_request_body(value)
    head = (f"POST /v2/models/{name}/infer HTTP/1.1\r\nHost: {server.http}\r\nContent-Length: {len(body)}\r\n"
            f"Inference-Header-Content-Length: {header}\r\n\r\n")
    file = server.log.with_suffix(f".{name}.request")
    file.write_bytes(head.encode() + body)
    return file


def run_client(client, server, request, under_way, seconds):
    """Number of requests, seconds, median latency and p99."""
    command = [client, str(server.http_port), request, str(under_way), str(seconds)]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    return int(out[0]), *map(float, out[1:])


DIRECT = {
    "own": """
import reflex
main = reflex.load(MODEL, threads=1, tier="kernels=best").session()["main"]
call = lambda: main(**feed)
""",
    "ort": """
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(MODEL, options)
call = lambda: session.run(None, feed)
""",
}


def direct(library, model, rows, seconds, engine="own"):
    """Calls of an engine in a process of its own: seconds and processor seconds for a request."""
    program = f"""
import sys, time
sys.path[:0] = [{str(HERE)!r}, {str(HERE.parent / "python")!r}]
import numpy as np, serving
feed = serving.feed({pathlib.Path(model).stem!r})
if {rows} > 1:
    feed = {{n: np.concatenate([a] * {rows}) for n, a in feed.items()}}
{DIRECT[engine].replace("MODEL", repr(str(model)))}
for _ in range(50 if {engine == "own"} else 3):
    call()
count, start, used = 0, time.perf_counter(), time.process_time()
while time.perf_counter() < start + {seconds}:
    call()
    count += {rows}
print(count, time.perf_counter() - start, time.process_time() - used)
"""
    environment = dict(os.environ, REFLEX_LIBRARY=str(library))
    out = subprocess.run([sys.executable, "-c", program], env=environment, check=True, stdout=subprocess.PIPE, text=True)
    count, elapsed, used = map(float, out.stdout.split())
    return elapsed / count, used / count


def build(folder):
    """Compiles the backend that computes nothing into a folder of backends, and the client, whose path it returns."""
    (folder / "nothing").mkdir()
    library, client = folder / "nothing/libtriton_nothing.so", folder / "client"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, HERE / "serving_nothing.c"], check=True)
    subprocess.run(["cc", "-O2", "-o", client, HERE / "serving_client.c"], check=True)
    return client


def add_models(folder, file, batched):
    """Lays out the repository of a model: one for each backend."""
    import triton

    repository, model = folder / file.stem, file.stem
    triton.add_model(repository, "own", file, 'backend: "reflex"\n' + ONE + (BATCHING if batched else ""))
    config = python_config(file, batched)
    triton.add_model(repository, "nothing", file, config.replace('backend: "python"', 'backend: "nothing"'))
    script = folder / f"{model}.py"
    script.write_text(PYTHON_MODEL.replace("MODEL", str(file)).replace("SITE", str(triton.PACKAGE.parent)))
    triton.add_model(repository, "ort", script, config)
    return repository


class Load:
    """Runs of the client against the models of a server."""

    def __init__(self, client, server, model, seconds):
        import tritonclient.http as http

        self.client, self.server, self.model, self.seconds = client, server, model, seconds
        self.requests = {name: request_file(server, name, model) for name in BACKENDS}
        self.manager = http.InferenceServerClient(server.http)

    def counts(self, name):
        stats = self.manager.get_inference_statistics(name)["model_stats"][0]
        return int(stats.get("inference_count", 0)), int(stats.get("execution_count", 0))

    def run(self, name, clients):
        """Requests a second, median and p99 latency in ms, processor us of the server a request, mean batch."""
        used, before = processor_seconds(self.server.process.pid), self.counts(name)
        count, elapsed, median, p99 = run_client(
            self.client, self.server, self.requests[name], clients, self.seconds)
        used, after = processor_seconds(self.server.process.pid) - used, self.counts(name)
        batch = (after[0] - before[0]) / max(after[1] - before[1], 1)
        return count / elapsed, median * 1e3, p99 * 1e3, used / count * 1e6, batch


def measure(load, library, file, clients):
    """One row of the table."""
    runs = {name: [] for name in BACKENDS}
    calls = {engine: [] for engine in DIRECT}
    rows = max(round(load.run("own", clients)[4]), 1)
    for _ in range(ROUNDS):
        for name in BACKENDS:
            runs[name].append(load.run(name, clients))
        for engine in DIRECT:
            calls[engine].append(direct(library, file, rows, load.seconds / 2, engine))
    median = lambda values: [statistics.median(column) for column in zip(*values)]
    own, ort, nothing = (median(runs[name]) for name in BACKENDS)
    (wall, processor), (_, processor_ort) = (median(calls[engine]) for engine in ("own", "ort"))
    print(f"| {load.model} | {clients} | {own[4]:.1f} | {own[0]:.0f} | {own[1]:.2f}, {own[2]:.2f} | {ort[0]:.0f} | "
          f"{ort[1]:.2f}, {ort[2]:.2f} | {nothing[0]:.0f} | {own[0] / ort[0]:.2f} | {own[0] * wall:.2f} | "
          f"{own[3]:.0f} | {ort[3]:.0f} | {nothing[3]:.0f} | {processor * 1e6:.0f} | {processor_ort * 1e6:.0f} |", flush=True)


def main():
    import triton

    library, reflex, models = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 5
    print("| model | clients | batch | Reflex/s | latency, p99, ms | ORT in Python/s | latency, p99, ms | nothing/s | "
          "Reflex/ORT | Reflex/direct | processor, us a request: Reflex | ORT in Python | nothing | Reflex direct | ORT direct |")
    print("|" + "---|" * 15)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        backends = triton.install_backend(library, folder / "backends")
        client = build(backends)
        for model in sys.argv[5:] or MODELS:
            # The others have no first dimension for batches.
            file, batched = models / f"{model}.onnx", model in ("magika", "minilm_l3_fp32")
            repository = add_models(folder, file, batched)
            log = pathlib.Path(os.environ.get("REFLEX_SERVING_LOG", folder / f"{model}.log"))
            with triton.Triton(repository, backends, log) as server:
                load = Load(client, server, model, seconds)
                for name in BACKENDS:
                    run_client(client, server, load.requests[name], 16, 2)
                for clients in CLIENTS:
                    measure(load, reflex, file, clients)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main()
