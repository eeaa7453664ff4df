"""Puts libreflex.so and reflex-codegen into the wheel: builds them with cargo, or takes those in
$REFLEX_BUILD, a folder where they lie built."""
import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILES = ("libreflex.so", "reflex-codegen")


class NativeFiles(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # Needed by no Python's ABI, but by this platform's.
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        if version == "editable":
            return  # The module finds the library in the build folders of the source tree.
        built = Path(os.environ.get("REFLEX_BUILD") or self.build())
        for name in FILES:
            build_data["force_include"][str(built / name)] = f"reflex/{name}"

    def build(self) -> Path:
        packages = ("-p", "reflex", "-p", "reflex-llvm")
        command = ("cargo", "build", "--release", "--locked", "--lib", "--bins", *packages)
        subprocess.run(command, cwd=self.root, check=True)
        target = os.environ.get("CARGO_TARGET_DIR", "target")
        return Path(self.root, target, "release")
