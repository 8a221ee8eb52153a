"""The tests of DTranx's client in Python: they start server processes of their own, and need no
gateway."""

import os
import re
import sys

from .place import Place, Result
from .processes import run as run_program, tail

PYTHON = (3, 11)
LIMIT_S = 200
RAN = re.compile(r"^Ran (\d+) tests? in", re.MULTILINE)


def run(place: Place) -> list[Result]:
    """The part `dtranx`."""
    log = place.work / "tests.log"
    # -B: nothing is written into the repository.
    command = [sys.executable, "-B", "-m", "unittest", "discover", "--verbose", "--start-directory", "tests", "--top-level-directory", "."]
    status = run_program(command, LIMIT_S, log, cwd=place.source, env=os.environ | {"DTRANX": str(place.dtranx)})
    ran = RAN.search(log.read_text(encoding="utf-8", errors="replace"))
    count = int(ran[1]) if ran else 0
    if status != 0 or count == 0:
        return [Result("client in Python", f"{count} tests, not all passed", [f"it ended with {status}:\n{tail(log)}"])]
    return [Result("client in Python", f"{count} passed, 0 failed")]
