"""Runs executables that Reflex wrote, NAME.copy.ro, in TVM's virtual machine, and compares the answers with
those of the files that TVM wrote. Prints each that differs.

usage: rerun.py FOLDER
"""

import json
import os
import sys

from oracle_env import tvm
from values import answer, value_of

from tvm.runtime.vm import Executable, VirtualMachine


def main():
    folder = sys.argv[1]
    with open(os.path.join(folder, "all.json")) as file:
        names = json.load(file)
    for name in names:
        path = os.path.join(folder, name)
        with open(path + ".copy.ro", "rb") as file:
            code = file.read()
        exe = Executable.load_exec(code, tvm.runtime.load_module(path + ".so"))
        with open(path + ".json") as file:
            subject = json.load(file)
        if subject["late_bound"]:
            exe.load_late_bound_consts(path + ".params")
        machine = VirtualMachine(exe, tvm.cpu())
        for call in subject["calls"]:
            args = [value_of(arg) for arg in call["args"]]
            again, first = answer(machine, call["func"], args), call["answer"]
            same = again == first if "result" in first else "error" in again
            if not same:
                print(f"{name}, {call['func']}: {again} is not {first}")
    print(f"reran {len(names)}")


main()
