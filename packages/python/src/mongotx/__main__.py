"""The command `mongotx`, and `python -m mongotx`: the binary takes this process over."""

import os
import sys

from ._binary import binary


def main() -> None:
    """Does not return."""
    path = str(binary())
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
