#!/usr/bin/env python3
"""Run a shared library in TVM's own VM and compare with references.

usage: run.py FILE.so REF.npz PARAMETER,PARAMETER,... [OUTPUT,OUTPUT,...]

Exit code 0 when every output of every feed is within rtol 1e-3, atol 1e-4.
"""
import os
import sys

os.environ.setdefault("TVM_NUM_THREADS", "1")
import numpy as np
import tvm
from tvm import relax


def main():
    path, reference, parameters = sys.argv[1], np.load(sys.argv[2]), sys.argv[3].split(",")
    outputs = sys.argv[4].split(",") if len(sys.argv) > 4 else ["output0"]
    vm = relax.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())
    feeds = 1 + max(int(key.split(".")[1]) for key in reference.files)
    for k in range(feeds):
        arguments = [tvm.runtime.tensor(reference[f"in.{k}.{p}"]) for p in parameters]
        answer = vm["main"](*arguments)
        answers = [answer] if isinstance(answer, tvm.runtime.Tensor) else list(answer)
        for name, value in zip(outputs, answers):
            np.testing.assert_allclose(
                value.numpy(), reference[f"out.{k}.{name}"], rtol=1e-3, atol=1e-4, err_msg=f"feed {k} {name}")
    print(f"{feeds} feeds agree")


if __name__ == "__main__":
    main()
