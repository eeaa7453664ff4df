"""Compiles the subjects with TVM's Relay compiler, runs them in its virtual machine, and writes to a
folder for each: NAME.ro and NAME.so, NAME.full.so with both, NAME.txt with the listing, NAME.params with
late-bound constants if it has any, and NAME.json with calls and their answers; all.json names them.

usage: compile.py FOLDER
"""

import json
import os
import sys

from oracle_env import TARGET, tvm
import subjects
from values import answer, json_of

from tvm.relay.backend.vm import compile as compile_vm
from tvm.runtime.vm import Executable, VirtualMachine


def write(folder, subject):
    path = os.path.join(folder, subject.name)
    exe = compile_vm(subject.module, target=TARGET, params=subject.params)
    limit = subject.late_bound
    if limit is not None:
        exe.move_late_bound_consts(path + ".params", byte_limit=limit)
    code, library = exe.save()
    with open(path + ".ro", "wb") as file:
        file.write(code)
    library.export_library(path + ".so")
    exe.mod.export_library(path + ".full.so")
    if limit is not None:
        exe = Executable.load_exec(bytes(code), tvm.runtime.load_module(path + ".so"))
        exe.load_late_bound_consts(path + ".params")
    with open(path + ".txt", "w") as file:
        file.write(exe.bytecode)
    machine = VirtualMachine(exe, tvm.cpu())
    calls = []
    for func, args in subject.calls:
        record = {"func": func, "args": [json_of(arg) for arg in args]}
        calls.append({**record, "answer": answer(machine, func, args)})
    with open(path + ".json", "w") as file:
        json.dump({"late_bound": limit is not None, "calls": calls}, file)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    everything = subjects.all()
    for subject in everything:
        write(folder, subject)
    with open(os.path.join(folder, "all.json"), "w") as file:
        json.dump([subject.name for subject in everything], file)


main()
