"""Compares the code on pages with what the gate runs.

A comment before a block says where its code is run:

<!-- from FILE -->        the block is a part of FILE, which the gate runs
<!-- run by FILE -->      FILE reads the page and runs the block
<!-- not run: REASON -->  nothing runs it

Every program of every page needs one of them, and on the pages of STRICT every block that is not
plain text. Rust on those has to be a doctest.
"""

import re
import textwrap
from collections.abc import Callable
from pathlib import Path

from .blocks import Block

PROGRAMS = {"python", "py", "js", "javascript", "ts", "typescript", "go", "java"}
STRICT = re.compile(r"README\.md|docs/guide/.*|packages/[^/]*/README\.md")
SHELL = {"sh", "bash", "shell"}
# What runs the examples of `drivers/`, and the list of pages whose Rust are doctests.
HARNESS = "drivers/harness"
DOCTESTS = "crates/mongotx/src/book.rs"
GATE = ".ci/run"
SELF = "docs/code"
# Comment at the end of a line of the shell.
REMARK = re.compile(r"(^|\s+)#.*$")


class Sources:
    """Where code may come from: the repository's files."""

    def __init__(self, root: Path):
        self.root = root
        self.harness = "".join(file.read_text(encoding="utf-8") for file in sorted((root / HARNESS).glob("*.py")))
        self.doctests = self.read(DOCTESTS) or ""

    def read(self, path: str) -> str | None:
        """A file of the repository; `None` where there is none."""
        file = (self.root / path).resolve()
        return file.read_text(encoding="utf-8") if file.is_relative_to(self.root) and file.is_file() else None

    def wrong_with(self, block: Block) -> str | None:
        """What is wrong with a block, in words; `None` if nothing is."""
        if block.mark is None:
            return self._wrong_without_mark(block)
        kind, what = block.mark
        checks: dict[str, Callable[[Block, str], str | None]] = {"from": self._wrong_copy, "run by": self._wrong_runner}
        return checks[kind](block, what) if kind in checks else None

    def _wrong_without_mark(self, block: Block) -> str | None:
        language, _, told = block.language.partition(",")
        is_strict = STRICT.fullmatch(block.page) is not None
        if language == "rust":
            is_doctest = f'"{block.page}"' in self.doctests and "ignore" not in told
            return f"its Rust is no doctest of {DOCTESTS}" if is_strict and not is_doctest else None
        needs_one = language in PROGRAMS or (is_strict and language != "text")
        return "nothing says where this code is run (`<!-- from FILE -->`)" if needs_one else None

    def _wrong_copy(self, block: Block, path: str) -> str | None:
        source = self.read(path)
        if source is None:
            return f"there is no {path}"
        if path != GATE and not self._is_run(path):
            return f"{HARNESS} does not run {path}"
        if block.language in SHELL:
            missing = missing_command(block.code, source)
        else:
            missing = missing_line(block.code, source)
        return None if missing is None else f"{path} has no {missing!r} there"

    def _is_run(self, path: str) -> bool:
        """Whether a file of `drivers/` is named by what runs these."""
        parts = Path(path).parts
        ends = ["/".join(parts[first:]) for first in range(2, len(parts))]
        return parts[0] == "drivers" and any(f'"{end}"' in self.harness for end in ends)

    def _wrong_runner(self, block: Block, path: str) -> str | None:
        source = self.read(path)
        if source is None:
            return f"there is no {path}"
        return None if path == SELF or Path(block.page).name in source else f"{path} does not read {Path(block.page).name}"


def missing_line(code: str, source: str) -> str | None:
    """The first line of `code` that differs where `source` is most like it; `None` if `code` is a
    part of `source`, at whatever depth it is indented there."""
    wanted, lines = code.splitlines(), source.splitlines()
    alike = 0
    for first in range(len(lines)):
        while alike < len(wanted) and is_same(wanted[: alike + 1], lines[first : first + alike + 1]):
            alike += 1
    if alike == len(wanted):
        return None
    return next((line.strip() for line in wanted[alike:] if line.strip()), "")


def is_same(some: list[str], others: list[str]) -> bool:
    """Whether lines are the same but for how deep they are indented together."""
    return textwrap.dedent("\n".join(some)) == textwrap.dedent("\n".join(others))


def missing_command(code: str, source: str) -> str | None:
    """The first command of `code` that no line of `source` has, by itself or among other words."""
    lines = [f" {' '.join(line.split())} " for line in source.splitlines()]
    commands = (" ".join(REMARK.sub("", line).split()) for line in code.splitlines())
    return next((command for command in commands if command and not any(f" {command} " in line for line in lines)), None)
