"""A pytest plugin that runs TVM's tests on Reflex in one of its modes, and writes down each outcome.

$REFLEX_SUITE_MODE is a mode, or `tvm` for TVM's own virtual machine. $REFLEX_SUITE_REPORT is a file
of JSON lines: the test, its outcome, whether it opened a session, and why it failed.
"""
import json
import os

import pytest

MODE = os.environ["REFLEX_SUITE_MODE"]
_before = 0


def _opened():
    if MODE == "tvm":
        return 0
    from virtual_machine import VirtualMachine

    return VirtualMachine.opened


def pytest_configure():
    # Some files use it and leave its import to others.
    import tvm.testing  # noqa: F401

    if MODE != "tvm":
        import virtual_machine

        virtual_machine.install()


def pytest_runtest_setup():
    global _before
    _before = _opened()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call" or report.outcome != "passed":
        if report.when != "teardown":
            why = str(call.excinfo.value).strip().split("\n") if report.failed and call.excinfo else [""]
            kind = f"{call.excinfo.typename}: " if report.failed and call.excinfo else ""
            why = (kind + next((part for part in why if part), ""))[:300]
            _write(item.nodeid, report.outcome, why, _opened() > _before)
    return report


def pytest_collectreport(report):
    if report.failed:
        last = str(report.longrepr).strip().split("\n")[-1]
        _write(report.nodeid, "uncollected", last.removeprefix("E").strip()[:300], False)


def _write(test, outcome, why, executes):
    line = {"test": test, "outcome": outcome, "executes": executes, "why": why}
    with open(os.environ["REFLEX_SUITE_REPORT"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
