"""Writes an ONNX model to a file: y = Relu(x W + b) for x of shape [n, 3], field by field."""
import struct
import sys


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def tensor(name, shape, values):
    dims = b"".join(number(1, dim) for dim in shape)
    return dims + number(2, 1) + data(8, name) + data(9, struct.pack(f"<{len(values)}f", *values))


def info(name, shape):
    dims = b"".join(data(1, data(2, d) if isinstance(d, str) else number(1, d)) for d in shape)
    return data(1, name) + data(2, data(1, number(1, 1) + data(2, dims)))


def node(kind, inputs, output):
    return b"".join(data(1, name) for name in inputs) + data(2, output) + data(4, kind)


graph = b"".join([
    data(1, node("MatMul", ["x", "w"], "product")),
    data(1, node("Add", ["product", "b"], "sum")),
    data(1, node("Relu", ["sum"], "y")),
    data(2, "linear"),
    data(5, tensor("w", [3, 2], [1, -1, 2, 0.5, -3, 4])),
    data(5, tensor("b", [2], [0.5, -2])),
    data(11, info("x", ["n", 3])),
    data(12, info("y", ["n", 2])),
])
model = number(1, 8) + data(7, graph) + data(8, data(1, "") + number(2, 17))
with open(sys.argv[1], "wb") as file:
    file.write(model)
