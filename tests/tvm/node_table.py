#!/usr/bin/env python3
"""The table of TVM's IR nodes, as src/node/table.in holds it.

usage: node_table.py > src/node/table.in        (needs apache-tvm)

A line is the key of a type, its kind of structural equality (`tree`, `var`, `dag`, `const` or
`unique`; `none` where it has none), and its fields in the order in which TVM declares them. After a
field's name and a colon, `=` says that its value stands in the node itself, `-` that equality ignores it, `p` that
variables below it are defined, and `s` that it is a variable, or a list of them, that is defined.
"""
import ctypes
import glob

import tvm  # noqa: F401: registers the types
import tvm_ffi
from tvm_ffi.core import _lookup_or_register_type_info_from_type_key as lookup

FAMILIES = ("ir", "prim", "relax", "s_tir", "sym", "target", "tirx")
KINDS = ("none", "tree", "var", "dag", "const", "unique")
# None, int, bool, float and DataType.
INLINE = (0, 1, 2, 3, 5)
MARKS = {None: "", "ignore": "-", "def-pattern": "p", "def-simple": "s"}


class Bytes(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class Metadata(ctypes.Structure):
    _fields_ = [
        ("doc", Bytes),
        ("creator", ctypes.c_void_p),
        ("total_size", ctypes.c_int32),
        ("equality", ctypes.c_int32),
    ]


class TypeInfo(ctypes.Structure):
    _fields_ = [
        ("index", ctypes.c_int32),
        ("depth", ctypes.c_int32),
        ("key", Bytes),
        ("ancestors", ctypes.c_void_p),
        ("key_hash", ctypes.c_uint64),
        ("num_fields", ctypes.c_int32),
        ("num_methods", ctypes.c_int32),
        ("fields", ctypes.c_void_p),
        ("methods", ctypes.c_void_p),
        ("metadata", ctypes.POINTER(Metadata)),
    ]


def fields(info):
    """Those of the ancestors first."""
    if info.parent_type_info is not None:
        yield from fields(info.parent_type_info)
    yield from info.fields


def main():
    library = ctypes.CDLL(glob.glob(tvm_ffi.__path__[0] + "/lib/libtvm_ffi.so")[0])
    library.TVMFFIGetTypeInfo.restype = ctypes.POINTER(TypeInfo)
    keys = tvm_ffi.get_global_func("ffi.GetRegisteredTypeKeys")()
    for key in sorted(str(key) for key in keys):
        if key.split(".")[0] not in FAMILIES:
            continue
        info = lookup(key)
        metadata = library.TVMFFIGetTypeInfo(info.type_index).contents.metadata
        kind = KINDS[metadata.contents.equality] if metadata else "none"
        words = [key, kind]
        for field in fields(info):
            inline = "=" if field.field_static_type_index in INLINE else ""
            marks = inline + MARKS[field.c_structural_eq]
            words.append(f"{field.name}:{marks}" if marks else field.name)
        print(" ".join(words))


if __name__ == "__main__":
    main()
