# TVM's client at a proxy: an artifact in its virtual machine on the other side.
import sys

import numpy as np
import tvm
from tvm import relax, rpc

host, port = sys.argv[1].rsplit(":", 1)
remote = rpc.connect(host, int(port), key=sys.argv[2])
device = remote.cpu(0)
x = np.linspace(-2, 2, 6, dtype="float32").reshape(2, 3)
remote.upload(sys.argv[3], "softmax.wasm")
machine = relax.VirtualMachine(remote.load_module("softmax.wasm"), device)
y = machine["main"](tvm.runtime.tensor(x, device)).numpy()
expected = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
print("near" if np.allclose(y, expected, rtol=1e-5) else y)
