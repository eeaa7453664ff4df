"""Holds a manifest to the schemas of its resources: KServe's, of the models that its Python package was generated
with, and Kubernetes' own. Then holds the schemas to the manifest: a misspelled or missing field must be refused.

usage: test_manifest.py MANIFEST     (of the packages kserve, kubernetes-validate and PyYAML; none of them is started)
"""
import ast
import copy
import functools
import importlib.util
import json
import pathlib
import sys

import jsonschema
import yaml

KUBERNETES = "1.34.0"
SCALARS = {"str": {"type": "string"}, "int": {"type": "integer"}, "bool": {"type": "boolean"},
           "float": {"type": "number"}, "datetime": {"type": "string", "format": "date-time"}}
KINDS = {("serving.kserve.io/v1alpha1", "ServingRuntime"): "V1alpha1ServingRuntime",
         ("serving.kserve.io/v1beta1", "InferenceService"): "V1beta1InferenceService"}
# Kubernetes' names of types whose names in KServe's models do not say them.
OTHER_NAMES = {"ResourceQuantity": ".api.resource.Quantity", "V1ObjectMeta": ".meta.v1.ObjectMeta"}


def package(name):
    """The folder of a package, which is not imported: KServe's would start a server's imports."""
    return pathlib.Path(importlib.util.find_spec(name).submodule_search_locations[0])


@functools.cache
def kubernetes_definitions():
    """Kubernetes' strict definitions, in which no property may be there that is not listed."""
    folder = package("kubernetes_validate") / "kubernetes-json-schema" / f"v{KUBERNETES}-local-strict"
    return json.loads((folder / "_definitions.json").read_text())["$defs"]


@functools.cache
def models():
    """KServe's generated classes by name: syntax trees."""
    trees = [ast.parse(file.read_text()) for file in (package("kserve") / "models").glob("v1*.py")]
    return {node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}


def table(model, name):
    """A dict that a generated class has as attribute."""
    for node in model.body:
        if isinstance(node, ast.Assign) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    raise ValueError(f"{model.name} has no {name}")


def required(model):
    """Attributes whose setters refuse None."""
    refused = set()
    for node in model.body:
        if isinstance(node, ast.FunctionDef) and any(isinstance(each, ast.Raise) for each in ast.walk(node)):
            tests = [ast.unparse(each.test) for each in ast.walk(node) if isinstance(each, ast.If)]
            if any(f"{node.name} is None" in test for test in tests):
                refused.add(node.name)
    return refused


def schema_of(kind, definitions):
    """The schema of a type by its name in the models; puts what it refers to into `definitions`."""
    if kind in SCALARS:
        return SCALARS[kind]
    if kind.startswith("list["):
        return {"type": "array", "items": schema_of(kind[5:-1], definitions)}
    if kind.startswith("dict(str, "):
        return {"type": "object", "additionalProperties": schema_of(kind[10:-1], definitions)}
    if kind not in models():
        # Of a type that neither has, nothing is accepted.
        end = OTHER_NAMES.get(kind, f".core.v1.{kind.removeprefix('V1')}")
        found = [name for name in definitions if name.endswith(end)]
        return {"$ref": f"#/$defs/{found[0]}"} if len(found) == 1 else False
    if kind not in definitions:
        model = models()[kind]
        names = table(model, "attribute_map")
        # Before the properties: types may contain themselves.
        entry = definitions[kind] = {"type": "object", "additionalProperties": False}
        entry["required"] = sorted(names[key] for key in required(model))
        entry["properties"] = {names[key]: schema_of(value, definitions)
                               for key, value in table(model, "openapi_types").items()}
    return {"$ref": f"#/$defs/{kind}"}


@functools.cache
def validator(kind):
    definitions = dict(kubernetes_definitions())
    schema = {**schema_of(kind, definitions), "$defs": definitions}
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def faults(document):
    """What a resource's schema says against it."""
    kind = KINDS[document["apiVersion"], document["kind"]]
    found = validator(kind).iter_errors(document)
    return [f"{document['kind']}{error.json_path[1:]}: {error.message}" for error in found]


def places(value, path=()):
    """The fields of a document: paths whose last step is a key."""
    for key, below in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if isinstance(value, dict):
            yield (*path, key)
        yield from places(below, (*path, key))


def changed(document, path, change):
    made = copy.deepcopy(document)
    change(functools.reduce(lambda value, step: value[step], path[:-1], made), path[-1])
    return made


# Keys of these are the user's own.
FREE = {"annotations", "requests", "limits"}


def test_manifest(documents):
    """Every resource is as its schema says."""
    found = [fault for document in documents for fault in faults(document)]
    assert not found, "\n".join(found)
    assert {document["kind"] for document in documents} == {"ServingRuntime", "InferenceService"}


def test_misspelled_fields(documents):
    """Each field, misspelled, is refused, and so is each value of another type."""
    def misspell(holder, key):
        holder[key + "s"] = holder.pop(key)

    def mistype(holder, key):
        holder[key] = [] if isinstance(holder[key], (str, int, dict)) else "text"

    count = 0
    for document in documents:
        for path in places(document):
            if path[-1] in ("apiVersion", "kind"):
                continue
            if len(path) < 2 or path[-2] not in FREE:
                assert faults(changed(document, path, misspell)), f"misspelled, and accepted: {path}"
            assert faults(changed(document, path, mistype)), f"of another type, and accepted: {path}"
            count += 1
    print(f"    {count} fields")


def test_required_fields(documents):
    """What a resource needs cannot be left out."""
    runtime, service = documents
    for document, path in ((runtime, ("spec", "containers")), (runtime, ("spec", "containers", 0, "name")),
                           (service, ("spec", "predictor")), (service, ("spec", "predictor", "model", "modelFormat"))):
        assert faults(changed(document, path, lambda holder, key: holder.pop(key))), f"left out, and accepted: {path}"


def main():
    documents = list(yaml.safe_load_all(pathlib.Path(sys.argv[1]).read_text()))
    for name, test in [item for item in globals().items() if item[0].startswith("test_")]:
        print(f"{name}: {test.__doc__}", flush=True)
        test(documents)
    print("done")


if __name__ == "__main__":
    main()
