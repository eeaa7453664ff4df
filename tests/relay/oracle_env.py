"""Imports TVM 0.16 with Relay, from the folder HHB_TVM into which a wheel was unpacked.

The wheel is for another version of Python, so its functions are called through ctypes; its importers of
models want packages that these tests do not.
"""

import os
import sys
import types

os.environ["TVM_FFI"] = "ctypes"
sys.path.insert(0, os.environ["HHB_TVM"])

import tvm  # noqa: E402

# The wheel's own default is another processor.
TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu"


class _Absent(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **options: None


sys.modules["tvm.relay.frontend"] = _Absent("tvm.relay.frontend")
