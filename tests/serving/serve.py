"""Serves models with Triton Inference Server and Reflex's backend on the loopback interface, until interrupted.

usage: serve.py BACKEND_LIBRARY FOLDER MODEL...     (of nvidia-pytriton; FOLDER gets the model repository)
"""
import json
import math
import pathlib
import shutil
import sys
import urllib.request

import triton


def request_of(config):
    """A request of zeros that the model takes; a free size is 1, of more than one dimension 16."""
    inputs = []
    for each in config["input"]:
        dims = [int(size) for size in each["dims"]]
        dims = [16 if size < 0 and len(dims) == 1 else max(size, 1) for size in dims]
        shape = ([1] if config.get("max_batch_size", 0) else []) + dims
        datatype = each["data_type"].removeprefix("TYPE_")
        zero = False if datatype == "BOOL" else 0.0 if datatype.startswith("FP") else 0
        inputs.append({"name": each["name"], "shape": shape, "datatype": datatype, "data": [zero] * math.prod(shape)})
    return {"inputs": inputs}


def get(url):
    return json.load(urllib.request.urlopen(url, timeout=60))


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
            name = pathlib.Path(file).stem
            try:
                config = get(f"http://{server.http}/v2/models/{name}/config")
            except OSError:
                print(f"{name} did not load; see the log", flush=True)
                continue
            request = folder / f"{name}.json"
            request.write_text(json.dumps(request_of(config)))
            print(f"curl -d @{request} http://{server.http}/v2/models/{name}/infer", flush=True)
        print(f"HTTP {server.http}, gRPC {server.grpc}, metrics http://127.0.0.1:{server.metrics_port}/metrics; "
              "Ctrl-C ends it", flush=True)
        server.process.wait()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
