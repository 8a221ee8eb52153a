"""The blocks of code of a page, each with the mark in the comment before it."""

import re
from dataclasses import dataclass

FENCE = re.compile(r"(\s*)```(.*)$")
COMMENT = re.compile(r"<!--(.*?)-->\s*$", re.DOTALL)
MARK = re.compile(r"(from|run by|not run:)\s+(\S.*)$", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of code."""

    page: str
    # Number of the line that opens it, from 1 on.
    line: int
    # What follows the fence: the language, and what rustdoc is told.
    language: str
    code: str
    # `from`, `run by` or `not run:`, and a path or the reason.
    mark: tuple[str, str] | None

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"{self.page}:{self.line}"


def blocks(page: str, text: str) -> list[Block]:
    """All blocks of a page. A fence that is never closed ends with the page."""
    found, lines, at = [], text.splitlines(), 0
    while at < len(lines):
        opened = FENCE.match(lines[at])
        if opened is None:
            at += 1
            continue
        end = at + 1
        while end < len(lines) and lines[end].strip() != "```":
            end += 1
        indentation = len(opened[1])
        code = "\n".join(line[indentation:] for line in lines[at + 1 : end])
        found.append(Block(page, at + 1, opened[2].strip(), code, _mark(lines[:at])))
        at = end + 1
    return found


def _mark(before: list[str]) -> tuple[str, str] | None:
    """The mark in the comment that stands directly before a block, or with one empty line
    between."""
    above = "\n".join(before[-MARK_LINES:]).rstrip()
    comment = COMMENT.search(above, above.rfind("<!--")) if "<!--" in above else None
    said = MARK.match(" ".join(comment[1].split())) if comment else None
    return (said[1], said[2]) if said else None


# The longest comment that is read for a mark.
MARK_LINES = 5
