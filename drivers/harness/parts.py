"""The table of parts, and what each needs on the machine."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass

from . import examples, go_suite, pymongo_suite
from .place import Place, Result


@dataclass(frozen=True)
class Part:
    """A folder of `drivers/` that can be run."""

    run: Callable[[Place], list[Result]]
    tools: tuple[str, ...] = ()
    python: tuple[int, int] | None = None

    def lacks(self) -> str | None:
        """What of its tools is not here."""
        missing = [tool for tool in self.tools if shutil.which(tool) is None]
        if self.python is not None and sys.version_info < self.python:
            missing.append(f"Python {self.python[0]}.{self.python[1]}")
        return ", ".join(missing) or None


PARTS = {
    "pymongo": Part(pymongo_suite.run, python=pymongo_suite.PYTHON),
    "python": Part(examples.python, python=pymongo_suite.PYTHON),
    "go": Part(go_suite.run, tools=("go",)),
    "node": Part(examples.node, tools=("node", "npm")),
    "java": Part(examples.java, tools=("java", "mvn")),
    "mongosh": Part(examples.mongosh, tools=("node", "npm")),
}
