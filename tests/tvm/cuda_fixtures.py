#!/usr/bin/env python3
"""Builds executables with TVM for CUDA devices, and writes what TVM's VM answers on a CPU.

usage: cuda_fixtures.py NVRTC OUT_DIR  (needs apache-tvm, apache-tvm-ffi, numpy and a C compiler)

NVRTC is a folder with the wheel nvidia-cuda-nvrtc-cu12 (12.9.86), for example one of site-packages; no GPU and
no toolkit is needed. For each module OUT_DIR gets NAME.so and NAME.npz, which holds calls with their answers.
TVM's package for machines without a GPU leaves CUDA C++ in the module; here NVRTC makes PTX of it, and in two
files machine code, with that PTX beside it.
"""
import ctypes
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

ARCH = "sm_80"

# What TVM's source includes of the toolkit.
HEADERS = {
    b"cuda/std/cstdint": b"""
namespace cuda { namespace std {
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
} }
""",
    b"cuda/std/type_traits": b"""
namespace cuda { namespace std {
template <class A, class B> struct is_same { static const bool value = false; };
template <class A> struct is_same<A, A> { static const bool value = true; };
template <class A, class B> constexpr bool is_same_v = is_same<A, B>::value;
template <class A> struct is_integral; template <class A> struct is_signed;
template <class A> struct is_unsigned; template <class A> struct is_floating_point;
template <bool B, class A> struct enable_if; template <bool B, class A, class C> struct conditional;
} }
""",
}


class Nvrtc:
    """NVIDIA's compiler of CUDA C++."""

    def __init__(self, folder):
        library = next(pathlib.Path(folder).rglob("libnvrtc.so.12"))
        builtins = next(library.parent.glob("libnvrtc-builtins.so.12.*"))
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
        self.nvrtc = ctypes.CDLL(str(library))

    def read(self, program, what):
        size = ctypes.c_size_t()
        assert getattr(self.nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
        data = ctypes.create_string_buffer(size.value)
        assert getattr(self.nvrtc, f"nvrtcGet{what}")(program, data) == 0
        return data.raw

    def compile(self, source, arch, what):
        program = ctypes.c_void_p()
        texts = (ctypes.c_char_p * len(HEADERS))(*HEADERS.values())
        names = (ctypes.c_char_p * len(HEADERS))(*HEADERS.keys())
        create = self.nvrtc.nvrtcCreateProgram
        assert create(ctypes.byref(program), source, b"module.cu", len(HEADERS), texts, names) == 0
        options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17", b"-default-device"]
        options = (ctypes.c_char_p * len(options))(*options)
        if self.nvrtc.nvrtcCompileProgram(program, len(options), options) != 0:
            sys.exit(self.read(program, "ProgramLog").decode())
        return self.read(program, what)


# Sums over rows by warps, a softmax, and shapes that a call says.
@I.ir_module
class Rows:
    @R.function
    def main(x: R.Tensor(("n", 24), "float32"), b: R.Tensor((24,), "float32")):
        with R.dataflow():
            y = R.add(x, b)
            z = R.nn.softmax(y)
            s = R.mean(R.multiply(z, z), axis=[1], keepdims=True)
            r = R.nn.relu(R.subtract(z, R.sqrt(s)))
            R.output(r)
        return r


# A product of matrices in tiles of shared memory, in a graph that TVM lets the device capture.
@I.ir_module
class Product:
    @R.function
    def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 16), "float32")):
        with R.dataflow():
            y = R.nn.relu(R.matmul(x, w))
            z = R.nn.softmax(y)
            m = R.sum(z, axis=[0])
            t = R.exp(m)
            R.output(t)
        return t


# Dynamic shared memory, numbers among the parameters, and a loop over blocks.
@I.ir_module(s_tir=True)
class Reverse:
    @T.prim_func(s_tir=True)
    def reverse(a: T.handle, scale: T.float32, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 32), "float32")
        B = T.match_buffer(b, (n, 32), "float32")
        for i in T.thread_binding(n, thread="blockIdx.y"):
            with T.sblock("row"):
                vi = T.axis.spatial(n, i)
                S = T.sblock_alloc_buffer((32,), scope="shared.dyn")
                for j in T.thread_binding(32, thread="threadIdx.x"):
                    with T.sblock("load"):
                        vj = T.axis.spatial(32, j)
                        S[vj] = A[vi, vj] * scale
                for j in T.thread_binding(32, thread="threadIdx.x"):
                    with T.sblock("store"):
                        vj = T.axis.spatial(32, j)
                        B[vi, vj] = S[31 - vj]

    @R.function
    def main(x: R.Tensor(("n", 32), "float32")):
        n = T.int64()
        cls = Reverse
        with R.dataflow():
            y = R.call_tir(cls.reverse, (x, R.prim_value(T.float32(2.5))), out_ty=R.Tensor((n, 32), "float32"))
            R.output(y)
        return y


def rows(rng):
    for n in (3, 1, 3, 3, 3, 3, 3, 5):
        yield {"x": rng.standard_normal((n, 24)), "b": rng.standard_normal(24)}


def product(rng):
    for _ in range(7):
        yield {"x": rng.standard_normal((4, 8)), "w": rng.standard_normal((8, 16))}


def reverse(rng):
    for n in (2, 7):
        yield {"x": rng.standard_normal((n, 32))}


def word(value):
    return struct.pack("<Q", value)


def text(data):
    return word(len(data)) + data


def with_code(bundle, replace):
    """The bundle with other code in its module of the kind `cuda`."""
    kind = text(b"cuda")
    start = bundle.index(kind + word(0)[:0]) + len(kind)
    (size,) = struct.unpack_from("<Q", bundle, start)
    blob, rest = bundle[start + 8 : start + 8 + size], bundle[start + 8 + size :]
    assert blob.startswith(kind), "the format of the code"
    source = blob.index(b"\n#ifdef __CUDACC_RTC__")
    functions = blob[len(kind) : source - 8]
    form, code = replace(blob[source:])
    return bundle[:start] + text(text(form) + functions + text(code)) + rest


def fatbin(cubin):
    """A fatbin with one cubin for ARCH."""
    cubin = cubin.ljust(-(-len(cubin) // 8) * 8, b"\0")
    # Kind, form, size of this, size of the code; no compression; version, architecture, no name, flags.
    entry = struct.pack("<HHIQIIHHIIIQQQ", 2, 0x101, 64, len(cubin), 0, 0, 7, 1, 80, 0, 0, 0x11, 0, 0)
    body = entry + cubin
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def export(executable, path, replace):
    """Writes a library whose kernels are what `replace` makes of their source."""

    def pack(module, is_system_lib, prefix, folder):
        packed = tvm.get_global_func("runtime.ModulePackImportsToTensor")(module)
        data = with_code(packed.numpy().tobytes()[8:], replace)
        path = pathlib.Path(folder) / "bundle.cc"
        data = ",".join(map(str, text(data)))
        # TVM calls a compiler of C++.
        path.write_text(f'extern "C" {{ extern const unsigned char __tvm_ffi__library_bin[] = {{{data}}}; }}\n')
        return str(path)

    executable.mod.export_library(str(path), fpack_imports=pack, options=["-s", "-Wl,-z,noseparate-code"])


def main():
    nvrtc, out = Nvrtc(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    limits = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
    cuda = tvm.target.Target({"kind": "cuda", "arch": ARCH, **limits}, host={"kind": "llvm"})
    ptx = lambda source: (b"ptx", nvrtc.compile(source, ARCH.replace("sm", "compute"), "PTX"))
    for name, module, feeds in (("rows", Rows, rows), ("product", Product, product), ("reverse", Reverse, reverse)):
        graphs = {"relax.backend.use_cuda_graph": name == "product"}
        with cuda, tvm.transform.PassContext(config=graphs):
            built = {mode: relax.build(module, target=cuda, exec_mode=mode) for mode in ("bytecode", "compiled")}
        export(built["bytecode"], out / f"{name}.so", ptx)
        if name == "rows":
            export(built["compiled"], out / "rows.compiled.so", ptx)
        if name == "reverse":
            for form, wrap in (("cubin", bytes), ("fatbin", fatbin)):

                def binary(source, form=form, wrap=wrap):
                    code = wrap(nvrtc.compile(source, ARCH, "CUBIN"))
                    (out / f"{form}.{form}").write_bytes(code)
                    (out / f"{form}.ptx").write_bytes(ptx(source)[1].rstrip(b"\0"))
                    return form.encode(), code

                export(built["bytecode"], out / f"reverse.{form}.so", binary)
        answers = {}
        # Threads of a GPU are none of a CPU.
        vm = name != "reverse" and relax.VirtualMachine(relax.build(module, target="llvm"), tvm.cpu())
        for number, feed in enumerate(feeds(np.random.default_rng(1))):
            feed = {key: value.astype("float32") for key, value in feed.items()}
            answers |= {f"in.{number}.{key}": value for key, value in feed.items()}
            tensors = [tvm.runtime.tensor(value) for value in feed.values()]
            result = vm["main"](*tensors).numpy() if vm else np.float32(2.5) * feed["x"][:, ::-1]
            answers[f"out.{number}.output0"] = result
        np.savez_compressed(out / f"{name}.npz", **answers)


if __name__ == "__main__":
    main()
