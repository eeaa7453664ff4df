"""Writes start corpora for the targets `blob` and `text` from real files.

usage: corpus.py FOLDER FILE...
FILEs are shared libraries that TVM or Reflex exported, listings (.vm) and scripts (.py).
FOLDER/blob gets the executables, FOLDER/text the text files as they are.
"""
import pathlib
import shutil
import struct
import sys

MAGIC = struct.pack("<Q", 0xD225DE2F4214151E)
LARGEST = 64 << 10

folder = pathlib.Path(sys.argv[1])
for kind in ("blob", "text"):
    (folder / kind).mkdir(parents=True, exist_ok=True)
for file in map(pathlib.Path, sys.argv[2:]):
    if file.suffix != ".so":
        shutil.copy(file, folder / "text" / file.name)
        continue
    data = file.read_bytes()
    at = data.index(MAGIC)
    (size,) = struct.unpack_from("<Q", data, at - 8)
    if size <= LARGEST:
        (folder / "blob" / file.name).write_bytes(data[at : at + size])
