"""Times PyTorch on the device: what its libraries reach, and the shapes of the folder's programs.

Prints a line of JSON for each: a name, and figures. Times are medians of device events; `in a row`
is the time of a call among many, as the check has it for the folder's programs.
"""

import json

import torch

F = torch.nn.functional


def median_ms(run, times=30):
    for _ in range(5):
        run()
    events = [(torch.cuda.Event(True), torch.cuda.Event(True)) for _ in range(times)]
    for start, end in events:
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return sorted(start.elapsed_time(end) for start, end in events)[times // 2]


def row_us(run, times=200):
    for _ in range(5):
        run()
    start, end = torch.cuda.Event(True), torch.cuda.Event(True)
    torch.cuda.synchronize()
    start.record()
    for _ in range(times):
        run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / times


def say(name, **figures):
    print(json.dumps({"name": name, "figures": figures}), flush=True)


def program(name, run):
    captured = torch.cuda.CUDAGraph()
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    with torch.cuda.graph(captured):
        run()
    say(name, **{"torch in a row": row_us(run), "torch graph in a row": row_us(captured.replay)})


def rand(*shape, dtype=torch.float32):
    return torch.rand(*shape, device="cuda", dtype=torch.float32).mul_(2).sub_(1).to(dtype)


def ceilings():
    x = rand(1 << 28)
    y = torch.empty_like(x)
    say("torch", **{
        "torch copy, GB/s read and written": 2 * x.nbytes / median_ms(lambda: y.copy_(x)) / 1e6,
    })
    del x, y
    for n in (2048, 8192):
        a, b = rand(n, n), rand(n, n)
        took = median_ms(lambda: a @ b, 9)
        say("torch", **{f"torch float32 matmul {n}, TFLOP/s": 2 * n**3 / took / 1e9})
        a, b = a.bfloat16(), b.bfloat16()
        took = median_ms(lambda: a @ b)
        say("torch", **{f"torch bfloat16 matmul {n}, TFLOP/s": 2 * n**3 / took / 1e9})


def programs():
    def matmul(m, k, n, dtype=torch.float32):
        x, w = rand(m, k, dtype=dtype), rand(k, n, dtype=dtype)
        return lambda: x @ w

    def matmul_part(n, dtype):
        x, w = rand(n, n, dtype=dtype), rand(n, n + 8, dtype=dtype)
        return lambda: x @ w[:, 8:]

    def softmax(m, n):
        x = rand(m, n)
        return lambda: F.softmax(x, -1)

    def norm(m, n):
        x, g, b = rand(m, n), rand(n), rand(n)
        return lambda: F.layer_norm(x, (n,), g, b, 1e-5)

    def reduce(m, n):
        x = rand(m, n)
        return lambda: (x.sum(1), x.amax(0), x.T.contiguous())

    def conv(shape, weight):
        x, w = rand(*shape), rand(*weight)
        return lambda: F.conv2d(x, w, padding=1)

    def conv_chain():
        x = rand(8, 3, 56, 56, dtype=torch.float16)
        u, v, w = (rand(*shape, dtype=torch.float16) for shape in ((64, 3, 3, 3), (64, 64, 3, 3), (128, 64, 3, 3)))
        first = lambda: F.relu(F.conv2d(x, u, padding=1))
        return lambda: F.conv2d(F.relu(F.conv2d(first(), v, padding=1)), w, stride=2, padding=1)

    program("matmul_square", matmul(512, 512, 512))
    program("matmul_row", matmul(1, 1024, 768))
    program("matmul_tails", matmul(257, 129, 511))
    program("matmul_large", matmul(2048, 2048, 2048))
    program("matmul_bf16_square", matmul(512, 512, 512, torch.bfloat16))
    program("matmul_bf16_large", matmul(2048, 2048, 2048, torch.bfloat16))
    program("matmul_f16_large", matmul(4096, 4096, 4096, torch.float16))
    program("matmul_bf16_larger", matmul(8192, 8192, 8192, torch.bfloat16))
    program("matmul_terms_large_sm90a", matmul(2048, 2048, 2048))
    program("matmul_terms_larger_sm90a", matmul(4096, 4096, 4096))
    program("matmul_terms_tails_sm90a", matmul(1000, 1090, 4001))
    program("conv_f16", conv_chain())
    program("conv_f16_sm90a", conv_chain())
    program("matmul_bf16_large_sm90a", matmul(2048, 2048, 2048, torch.bfloat16))
    program("matmul_f16_large_sm90a", matmul(4096, 4096, 4096, torch.float16))
    program("matmul_bf16_tails_sm90a", matmul(4000, 1096, 5000, torch.bfloat16))
    program("matmul_bf16_larger_sm90a", matmul(8192, 8192, 8192, torch.bfloat16))
    program("matmul_bf16_part_sm90a", matmul_part(8192, torch.bfloat16))
    program("softmax_rows", softmax(1000, 777))
    program("softmax_large", softmax(16384, 1024))
    program("softmax_long", softmax(256, 65536))
    program("reduce_large", reduce(1023, 1025))
    program("reduce_larger", reduce(4096, 4096))
    program("layer_norm", norm(513, 384))
    program("layer_norm_large", norm(65536, 384))
    program("conv_3x3", conv((1, 32, 28, 28), (64, 32, 3, 3)))


if __name__ == "__main__":
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    ceilings()
    programs()
