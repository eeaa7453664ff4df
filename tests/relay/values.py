"""Values as JSON: tensors by type, shape and bytes, values of data types by tag and fields."""

import numpy as np

from oracle_env import tvm


def json_of(value):
    """A value of the virtual machine, or an argument for it."""
    if isinstance(value, tvm.runtime.container.ADT):
        return {"tag": value.tag, "fields": [json_of(field) for field in value]}
    if isinstance(value, (tuple, list)):
        return {"tag": 0, "fields": [json_of(field) for field in value]}
    if isinstance(value, (tvm.nd.NDArray, np.ndarray)):
        array = value if isinstance(value, np.ndarray) else value.numpy()
        data = np.ascontiguousarray(array).tobytes().hex()
        return {"dtype": str(array.dtype), "shape": list(array.shape), "data": data}
    return {"object": type(value).__name__}


def value_of(json):
    """The argument that a JSON text stands for."""
    if "fields" in json:
        return tvm.runtime.container.ADT(json["tag"], [value_of(field) for field in json["fields"]])
    array = np.frombuffer(bytes.fromhex(json["data"]), dtype=np.dtype(json["dtype"]))
    return tvm.nd.array(array.reshape(json["shape"]))


def answer(machine, func, args):
    """The result of a call, or its error."""
    try:
        return {"result": json_of(machine.invoke(func, *args))}
    except Exception as error:  # TVM's errors have no common base
        return {"error": str(error)}
