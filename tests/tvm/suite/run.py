#!/usr/bin/env python3
"""TVM's own Relax tests on Reflex, in every mode.

usage: run.py TVM WORK [--only PATTERN] [--modes MODE,...]

TVM is a checkout of TVM's sources, WORK a folder for reports. Each test file that opens a virtual
machine runs once in each mode with `virtual_machine.py` in the place of TVM's. A test that fails here
runs in TVM's own virtual machine too. What passes there and fails here is in `expected.txt` with its
reason, or a fault; so is what is listed and passes. Exit code 1 when there is a fault.

Needs apache-tvm, pytest and NumPy, and $REFLEX_LIBRARY.
"""
import argparse
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MODES = ["bytecode", "compiled", "tiered"]
# A file that uses none of these runs no program of the virtual machine.
EXECUTES = re.compile(r"\bVirtualMachine\b|\.jit\(|BasePyModule|vm\.builtin\.(?!kv_|paged_|attention_|rnn_)")
# Longest that one file may take in one mode.
LIMIT = 3600


def files(tvm, only):
    folder = tvm / "tests/python/relax"
    found = [path for path in sorted(folder.glob("test_*.py")) if EXECUTES.search(path.read_text(encoding="utf-8"))]
    if not found:
        sys.exit(f"no tests in {folder}")
    # The longest first, so that the processes end together.
    found.sort(key=lambda path: -path.stat().st_size)
    return [path for path in found if fnmatch.fnmatch(path.name, only)]


def pytest(tvm, work, mode, name, tests):
    """Runs tests in a process of their own: one that crashes takes no other file along."""
    report = work / f"{mode}.{name}.jsonl"
    report.unlink(missing_ok=True)
    report.touch()
    env = dict(
        os.environ,
        REFLEX_SUITE_MODE=mode,
        REFLEX_SUITE_REPORT=str(report),
        PYTHONPATH=f"{HERE}:{HERE.parents[2] / 'python'}",
        TVM_NUM_THREADS="1",
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "plugin", "-p", "no:cacheprovider", "--tb=short",
               f"--rootdir={tvm}", "--continue-on-collection-errors", *tests]
    with open(work / f"{mode}.{name}.log", "w", encoding="utf-8") as log:
        try:
            status = subprocess.run(command, cwd=tvm, env=env, stdout=log, stderr=log, timeout=LIMIT).returncode
        except subprocess.TimeoutExpired:
            status = f"no end within {LIMIT} s"
    lines = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    # 0 all passed, 1 some failed, 2 not collected, 5 no tests.
    if status not in (0, 1, 2, 5):
        lines.append({"test": name, "outcome": "failed", "executes": True, "why": f"pytest ended with {status}"})
    return lines


def expectations():
    """Test and modes that are expected to fail, with the reason: `MODE[,MODE] TEST # REASON`."""
    listed = {}
    for line in (HERE / "expected.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            entry, reason = line.split(" # ", 1)
            modes, test = entry.split(" ", 1)
            for mode in MODES if modes == "all" else modes.split(","):
                listed[mode, test.strip()] = reason
    return listed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tvm", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--only", default="*")
    parser.add_argument("--modes", default=",".join(MODES))
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    tvm, work, modes = args.tvm.resolve(), args.work.resolve(), args.modes.split(",")
    listed = {(mode, test): why for (mode, test), why in expectations().items() if mode in modes}
    chosen = files(tvm, args.only)
    outcomes = {mode: {} for mode in modes}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {
            pool.submit(pytest, tvm, work, mode, path.stem, [str(path.relative_to(tvm))]): mode
            for path in chosen
            for mode in modes
        }
        for job in concurrent.futures.as_completed(jobs):
            outcomes[jobs[job]].update({line["test"]: line for line in job.result()})
    faults = []
    wrong = [line for of in outcomes.values() for line in of.values() if line["outcome"] in ("failed", "uncollected")]
    again = sorted({line["test"] for line in wrong if (tvm / line["test"].split("::")[0]).is_file()})
    theirs = {line["test"]: line["outcome"] for line in pytest(tvm, work, "tvm", "failed", again)} if again else {}
    for line in {line["test"]: line for line in wrong if line["outcome"] == "uncollected"}.values():
        print(f"tvm: {line['test']} is not collected, here or in TVM: {line['why']}")
    for mode in modes:
        executed = [line for line in outcomes[mode].values() if line["executes"]]
        passed = [line for line in executed if line["outcome"] == "passed"]
        known = 0
        for test, line in sorted(outcomes[mode].items()):
            fails = line["outcome"] == "failed" and theirs.get(test, "passed") == "passed"
            fails |= line["outcome"] == "uncollected" and theirs.get(test) != "uncollected"
            if fails and (mode, test) in listed:
                known += 1
            elif fails:
                faults.append(f"{mode} {test} # {line['why']}")
            elif (mode, test) in listed and line["outcome"] == "passed":
                faults.append(f"{mode} {test} is listed in expected.txt and passes")
        print(f"tvm: {len(executed)} of TVM's own tests execute programs, in mode {mode}: {len(passed)} pass, "
              f"{known} fail as expected.txt says, {len(executed) - len(passed) - known} others fail in TVM too "
              "or are skipped")
    names = {path.name for path in chosen}
    ran = {test for of in outcomes.values() for test in of}
    for mode, test in sorted(listed):
        if test.split("::")[0].rsplit("/", 1)[-1] in names and test not in ran:
            faults.append(f"{mode} {test} is listed in expected.txt and is no test")
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
