"""Writes start corpora for the targets `blob`, `text` and `json` from real files.

usage: corpus.py FOLDER FILE...
FILEs are shared libraries that TVM or Reflex exported, listings (.vm), scripts (.py) and nodes (.json: a graph or a list
of texts). FOLDER/blob gets the executables, FOLDER/text the text files as they are, FOLDER/json the graphs.
"""
import json
import pathlib
import shutil
import struct
import sys

MAGIC = struct.pack("<Q", 0xD225DE2F4214151E)
LARGEST = 64 << 10

folder = pathlib.Path(sys.argv[1])
for kind in ("blob", "text", "json"):
    (folder / kind).mkdir(parents=True, exist_ok=True)
for file in map(pathlib.Path, sys.argv[2:]):
    if file.suffix == ".json":
        text = file.read_text(encoding="utf-8")
        graphs = json.loads(text) if text.startswith("[") else [text]
        for number, graph in enumerate(graphs):
            if len(graph) <= LARGEST:
                (folder / "json" / f"{file.stem}-{number}").write_text(graph, encoding="utf-8")
        continue
    if file.suffix != ".so":
        shutil.copy(file, folder / "text" / file.name)
        continue
    data = file.read_bytes()
    at = data.index(MAGIC)
    (size,) = struct.unpack_from("<Q", data, at - 8)
    if size <= LARGEST:
        (folder / "blob" / file.name).write_bytes(data[at : at + size])
