"""Puts the `mongotx` binary into the wheel.

It is the one that MONGOTX_BINARY names, or one that cargo builds.
"""

import os
import subprocess
import sysconfig
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parents[2]


class BinaryHook(BuildHookInterface):
    """Runs before a wheel is built."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Adds the binary, and gives the wheel the platform's tag in place of `any`."""
        if version == "editable":
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        # Of Python the binary needs nothing, so one wheel is for all versions.
        build_data["tag"] = f"py3-none-{platform}"
        build_data["force_include"][str(binary())] = "mongotx/_bin/mongotx"


def binary() -> Path:
    """The binary that the wheel carries."""
    given = os.environ.get("MONGOTX_BINARY")
    if given:
        path = Path(given).resolve()
        if not path.is_file():
            raise SystemExit(f"MONGOTX_BINARY: there is no file {path}")
        return path
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "mongotx-cli"], cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "mongotx"
