"""`docs/code`: compares what pages show with its sources, and runs the commands.

Exit status: 0 all is as it has to be, 1 something is not, 128 + n ended by signal n.
"""

import argparse
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from . import commands, test_sources
from .blocks import Block, blocks
from .sources import SELF, Sources

ROOT = Path(__file__).resolve().parent.parent.parent
# Pages whose commands are run first: what others need is started there.
FIRST = ["docs/guide/install.md"]


def main() -> int:
    """`docs/code`."""
    parser = argparse.ArgumentParser(prog="docs/code", description="Compares the code on pages with its sources, and runs the commands.")
    parser.add_argument("--mongotx", type=Path, metavar="FILE", help="runs the commands, with this binary")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # What was started is ended on the way out.
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    own = unittest.defaultTestLoader.loadTestsFromModule(test_sources)
    if not unittest.TextTestRunner(verbosity=0).run(own).wasSuccessful():
        return 1
    found = [block for page in pages() for block in blocks(page, (ROOT / page).read_text(encoding="utf-8"))]
    sources = Sources(ROOT)
    wrong = [f"{block.place}: {said}" for block in found if (said := sources.wrong_with(block))]
    for said in wrong:
        print(f"code: {said}", file=sys.stderr)
    print(f"{counted(found)}, {len(wrong)} wrong")
    if options.mongotx is not None:
        chosen = [block for block in found if block.mark == ("run by", SELF)]
        chosen.sort(key=lambda block: block.page not in FIRST)
        wrong += commands.run(chosen, options.mongotx.resolve(), ROOT)
    return 1 if wrong else 0


def pages() -> list[str]:
    """The paths of all pages, as git lists them."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).exists()]


def counted(found: list[Block]) -> str:
    """How many blocks have which mark."""
    marks = [block.mark[0] for block in found if block.mark is not None]
    copies, run, unrun = (marks.count(kind) for kind in ("from", "run by", "not run:"))
    return f"code on pages: {copies} blocks from files that the gate runs, {run} run from the page, {unrun} not run"
