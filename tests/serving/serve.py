"""Serves models with Triton Inference Server and Reflex's backend on the loopback interface, until interrupted.

usage: serve.py BACKEND_LIBRARY FOLDER MODEL...     (of nvidia-pytriton; FOLDER gets the model repository)
"""
import json
import math
import pathlib
import shutil
import sys
import urllib.error
import urllib.request

import triton


# Shapes and values where zeros of the smallest sizes are no input, or one without an answer worth seeing.
DEMO = {
    "minilm_l3_fp32": {"input_ids": ([1, 16], 2023), "attention_mask": ([1, 16], 1)},
    "silero_vad": {"input": ([1, 576], 0.0), "sr": ([1], 16000)},
}


def request_of(config):
    """A request that the model takes: zeros, where a free size is 1, the only one of an input 16; or the demo's."""
    inputs = []
    for each in config["input"]:
        dims = [int(size) for size in each["dims"]]
        dims = [16 if size < 0 and len(dims) == 1 else max(size, 1) for size in dims]
        shape = ([1] if config.get("max_batch_size", 0) else []) + dims
        datatype = each["data_type"].removeprefix("TYPE_")
        zero = False if datatype == "BOOL" else 0.0 if datatype.startswith("FP") else 0
        shape, value = DEMO.get(config["name"], {}).get(each["name"], (shape, zero))
        inputs.append({"name": each["name"], "shape": shape, "datatype": datatype, "data": [value] * math.prod(shape)})
    return {"inputs": inputs}


def fetch(url, data=None):
    """The answer of a GET, or of a POST of `data`."""
    request = urllib.request.Request(url, None if data is None else json.dumps(data).encode())
    return json.load(urllib.request.urlopen(request, timeout=60))


def line_of(server, name, folder):
    """Writes a request for a model and returns the command that sends it, which was tried."""
    url = f"http://{server.http}/v2/models/{name}"
    try:
        config = fetch(f"{url}/config")
    except OSError:
        return f"{name} did not load; see the log"
    file, request = folder / f"{name}.json", request_of(config)
    file.write_text(json.dumps(request))
    command = f"curl -d @{file} {url}/infer"
    try:
        fetch(f"{url}/infer", request)
    except urllib.error.HTTPError as error:
        return f"{name} refuses zeros ({json.load(error)['error'].strip()}); put its data into the file: {command}"
    return command


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    library, folder, files = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    shutil.rmtree(folder, ignore_errors=True)
    repository = folder / "models"
    backends = triton.install_backend(library, folder / "backends")
    for file in map(pathlib.Path, files):
        if not file.is_file():
            sys.exit(f"serve: {file} does not exist")
        triton.add_model(repository, file.stem, file)
    print(f"starting Triton with {len(files)} models; its log is {folder / 'triton.log'}", flush=True)
    with triton.Triton(repository, backends, folder / "triton.log", ports=(8000, 8001, 8002)) as server:
        for file in files:
            print(line_of(server, pathlib.Path(file).stem, folder), flush=True)
        print(f"HTTP {server.http}, gRPC {server.grpc}, metrics http://127.0.0.1:{server.metrics_port}/metrics; "
              "Ctrl-C ends it", flush=True)
        server.process.wait()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
