"""Triton Inference Server with Reflex's backend, on the loopback interface."""
import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.request

import pytriton

PACKAGE = pathlib.Path(pytriton.__file__).parent

# The server's option for responses that are kept, 16 MiB of them.
CACHE = [f"--cache-directory={PACKAGE / 'tritonserver/caches'}", "--cache-config=local,size=16777216"]


def free_ports(wanted):
    """Ports that nothing listens on: those wanted, or others if they are taken; another process may take
    one before the server does."""
    with contextlib.ExitStack() as stack:
        ports = []
        for port in wanted:
            each = stack.enter_context(socket.socket())
            try:
                each.bind(("127.0.0.1", port))
            except OSError:
                each.bind(("127.0.0.1", 0))
            ports.append(each.getsockname()[1])
        return ports


def install_backend(library, folder):
    """Lays out a folder of backends: Reflex's, and the Python backend of the package."""
    own, python = folder / "reflex", folder / "python"
    for each in (own, python):
        each.mkdir(parents=True, exist_ok=True)
    # The program that hosts Python models is for one version of Python.
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = PACKAGE / "tritonserver/python_backend_stubs" / version / "triton_python_backend_stub"
    files = [stub, *(PACKAGE / "tritonserver/backends/python").glob("*[!_]")]
    links = [(own / "libtriton_reflex.so", pathlib.Path(library).resolve())]
    for link, target in links + [(python / file.name, file) for file in files]:
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    return folder


def add_model(repository, name, file, config='backend: "reflex"\n', version=1):
    """Puts a model into a repository; its name there is `model` with the file's ending. `config` may be None."""
    file = pathlib.Path(file)
    folder = repository / name / str(version)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"model{file.suffix}").unlink(missing_ok=True)
    (folder / f"model{file.suffix}").symlink_to(file.resolve())
    if config is not None:
        (repository / name / "config.pbtxt").write_text(config)


class Triton:
    """A running server; the end of a `with` stops it."""

    def __init__(self, repository, backends, log, options=(), ports=(0, 0, 0), **variables):
        self.http_port, self.grpc_port, self.metrics_port = free_ports(ports)
        self.log = pathlib.Path(log)
        command = [
            str(PACKAGE / "tritonserver/bin/tritonserver"),
            f"--model-repository={repository}",
            f"--backend-directory={backends}",
            "--http-address=127.0.0.1", f"--http-port={self.http_port}",
            "--grpc-address=127.0.0.1", f"--grpc-port={self.grpc_port}",
            f"--metrics-port={self.metrics_port}", "--metrics-address=127.0.0.1",
            "--exit-on-error=false", *options,
        ]
        libraries = str(PACKAGE.parent / "nvidia_pytriton.libs")
        environment = dict(os.environ, LD_LIBRARY_PATH=libraries, **variables)
        self._out = open(self.log, "w")
        self.process = subprocess.Popen(command, stdout=self._out, stderr=self._out, env=environment)

    def __enter__(self):
        self.wait_ready()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._out.close()

    @property
    def http(self):
        return f"127.0.0.1:{self.http_port}"

    @property
    def grpc(self):
        return f"127.0.0.1:{self.grpc_port}"

    def wait_ready(self, seconds=300):
        """Waits until the server is live and all models have loaded or failed."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended:\n{self.log.read_text()[-4000:]}")
            with contextlib.suppress(OSError):
                if urllib.request.urlopen(f"http://{self.http}/v2/health/live", timeout=5).status == 200:
                    return
            time.sleep(0.1)
        raise RuntimeError(f"the server is not ready after {seconds} s:\n{self.log.read_text()[-4000:]}")

    def resident_kib(self):
        """The server's memory."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))
