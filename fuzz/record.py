"""Records sessions of TVM's RPC client as a start corpus for the targets `rpc` and `tracker`.

usage: record.py FOLDER REFLEX       (needs apache-tvm, as tests/tvm/rpc.py, whose sessions these are)

REFLEX is the program. It serves and tracks behind proxies, which write what clients send: FOLDER/rpc gets a file for
each session, without its greeting, its first packet and packets of more than LARGEST bytes, and FOLDER/tracker one file
with the messages of all connections in the order in which they came, each after the number of its connection.
"""
import json
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import threading

LARGEST = 4096
# As in tracker.rs.
CONNECTIONS = 8

folder, reflex = pathlib.Path(sys.argv[1]), sys.argv[2]
for kind in ("rpc", "tracker"):
    (folder / kind).mkdir(parents=True, exist_ok=True)


def start(*args):
    process = subprocess.Popen([reflex, *args, "--json", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    return process, json.loads(process.stdout.readline())["listening"]


def exactly(stream, count):
    data = b""
    while len(data) < count:
        part = stream.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def copied(source, target):
    try:
        while part := source.recv(1 << 16):
            target.sendall(part)
    except OSError:
        pass
    target.close()


class Proxy:
    """Passes connections on to `address`; `record` reads what a client sends, and hands it on."""

    def __init__(self, address, record):
        host, port = address.rsplit(":", 1)
        self.target, self.record = (host, int(port)), record
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = str(self.listener.getsockname()[1])
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        for number in range(1 << 20):
            client, _ = self.listener.accept()
            server = socket.create_connection(self.target)
            threading.Thread(target=copied, args=(server, client), daemon=True).start()
            threading.Thread(target=self.one, args=(number, client, server), daemon=True).start()

    def one(self, number, client, server):
        def take(count):
            data = exactly(client, count)
            server.sendall(data)
            return data

        try:
            self.record(number, take)
        except (EOFError, OSError):
            pass
        server.close()


def session(number, take):
    (length,) = struct.unpack_from("<i", take(8), 4)
    take(length)
    with open(folder / "rpc" / f"session-{number}", "wb") as file:
        for packet in range(1 << 20):
            head = take(8)
            (length,) = struct.unpack("<Q", head)
            if packet and length <= LARGEST:
                file.write(head + take(length))
                file.flush()
                continue
            while length:
                length -= len(take(min(length, LARGEST)))


def messages(number, take):
    take(4)
    number %= CONNECTIONS
    with open(folder / "tracker" / "messages", "ab") as file:
        try:
            while True:
                head = take(4)
                file.write(bytes([number]) + head + take(struct.unpack("<i", head)[0]))
                file.flush()
        finally:
            file.write(bytes([CONNECTIONS + number]))


running = []
try:
    tracker, address = start("tracker")
    running.append(tracker)
    tracked = Proxy(address, messages)
    at = ["--tracker", "127.0.0.1:" + tracked.port, "--key", "cpu"]
    registered, _ = start("serve", "--allow-code", *at)
    running.append(registered)
    server, address = start("serve", "--allow-code")
    running.append(server)
    served = Proxy(address, session)
    script = pathlib.Path(__file__).parent.parent / "tests/tvm/rpc.py"
    with tempfile.TemporaryDirectory() as work:
        for args in (
            ["client", "127.0.0.1", served.port, work],
            ["tracker", "127.0.0.1", tracked.port, "cpu"],
            ["measure", "127.0.0.1", tracked.port, "cpu"],
        ):
            subprocess.run([sys.executable, script, *args], check=True)
finally:
    for process in running:
        process.kill()
