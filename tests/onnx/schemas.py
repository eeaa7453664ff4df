#!/usr/bin/env python3
"""Write the operators that onnx and ONNX Runtime have schemas of: the data of docs/onnx.md and `reflex info --operators`.

usage: schemas.py > src/onnx/schemas.txt        (needs the pinned onnx and onnxruntime)

A line for each operator: domain, name, the versions at which its schema changed, and the element types
of its first input, in its latest version. Domains of ONNX come from onnx, com.microsoft from ONNX Runtime.
"""
import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as ort


def types_of(schema):
    """Element types of the first input, short; `-` where there is none."""
    if not schema.inputs:
        return "-"
    first = schema.inputs[0]
    name = getattr(first, "type_str", None) or first.typeStr
    constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    allowed = constraints.get(name, [name])
    return ",".join(sorted(str(t).replace(" ", "").removeprefix("tensor(").removesuffix(")") if str(t).startswith("tensor(")
                           else str(t).replace(" ", "") for t in allowed)) or "-"


def lines(schemas, domains):
    latest, versions = {}, {}
    for schema in schemas:
        domain = schema.domain or "ai.onnx"
        if domain not in domains:
            continue
        key = (domain, schema.name)
        versions.setdefault(key, set()).add(schema.since_version)
        if schema.since_version == max(versions[key]):
            latest[key] = schema
    for key in sorted(latest):
        schema = latest[key]
        note = "deprecated" if schema.deprecated else types_of(schema)
        yield f"{key[0]} {key[1]} {','.join(map(str, sorted(versions[key])))} {note}"


def main():
    print(f"# onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")
    own = ["ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"]
    print("\n".join(lines(onnx.defs.get_all_schemas_with_history(), own)))
    print("\n".join(lines(ort.get_all_operator_schema(), ["com.microsoft"])))


if __name__ == "__main__":
    main()
