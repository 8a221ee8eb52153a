"""The path of the `mongotx` binary."""

import os
from pathlib import Path

# A binary to be used in place of the package's own.
VARIABLE = "MONGOTX_BINARY"


def binary() -> Path:
    """Path of the `mongotx` binary: that of the variable MONGOTX_BINARY, or the package's own."""
    path = Path(os.environ.get(VARIABLE) or Path(__file__).with_name("_bin") / "mongotx")
    if not path.is_file():
        raise FileNotFoundError(f"there is no mongotx binary at {path}: install the package for this platform, or set {VARIABLE}")
    return path
