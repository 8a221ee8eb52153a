"""The table of parts, and what each needs on the machine."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import dtranx_client, examples, go_suite, node_suites, pymongo_suite
from .place import Place, Result


@dataclass(frozen=True)
class Part:
    """A folder of `drivers/` that can be run."""

    run: Callable[[Place], list[Result]]
    tools: tuple[str, ...] = ()
    # Tools of which the part needs one.
    one_of: tuple[str, ...] = ()
    python: tuple[int, int] | None = None
    # The archive of its sources.
    archive: str | None = None
    # Gateways that show a replica set.
    members: int = 0
    # Further options of its gateways.
    options: tuple[str, ...] = ()
    # Without it, no mongod and no gateway is started for it.
    has_gateways: bool = True

    def lacks(self, suites: Path) -> str | None:
        """Its tools and sources that are missing."""
        missing = [tool for tool in self.tools if shutil.which(tool) is None]
        if self.one_of and not any(shutil.which(tool) for tool in self.one_of):
            missing.append(" or ".join(self.one_of))
        if self.python is not None and sys.version_info < self.python:
            missing.append(f"Python {self.python[0]}.{self.python[1]}")
        if self.archive and not (suites / self.archive).is_file():
            missing.append(f"{suites / self.archive} (--suites)")
        return ", ".join(missing) or None


# Further options of the gateways for the suites' tests of change streams.
ALL_STREAMS = ("--change-streams", "all")

PARTS = {
    "pymongo": Part(pymongo_suite.run, python=pymongo_suite.PYTHON),
    "pymongo-streams": Part(
        pymongo_suite.run_streams,
        python=pymongo_suite.PYTHON,
        members=1,
        options=ALL_STREAMS,
    ),
    "python": Part(examples.python, python=pymongo_suite.PYTHON),
    "beanie": Part(examples.beanie, python=pymongo_suite.PYTHON, members=2),
    "browser": Part(examples.browser, one_of=("chromium", "chromium-browser", "google-chrome"), python=pymongo_suite.PYTHON),
    "go": Part(go_suite.run, tools=("go",)),
    "go-streams": Part(go_suite.run_streams, tools=("go",), members=1, options=ALL_STREAMS),
    "node": Part(examples.node, tools=("node", "npm"), members=1),
    "payload": Part(examples.payload, tools=("node", "npm"), members=1),
    "node-driver": Part(
        node_suites.driver, tools=("node", "npm"), archive=node_suites.DRIVER, members=1
    ),
    "node-transactions": Part(
        node_suites.driver_transactions, tools=("node", "npm"), archive=node_suites.DRIVER
    ),
    "node-streams": Part(
        node_suites.driver_streams,
        tools=("node", "npm"),
        archive=node_suites.DRIVER,
        members=1,
        options=ALL_STREAMS,
    ),
    "mongoose": Part(
        node_suites.mongoose, tools=("node", "npm"), archive=node_suites.MONGOOSE, members=1
    ),
    "spring": Part(examples.spring, tools=("java", "mvn"), members=1),
    "java": Part(examples.java, tools=("java", "mvn")),
    "mongosh": Part(examples.mongosh, tools=("node", "npm")),
    "dtranx": Part(dtranx_client.run, python=dtranx_client.PYTHON, has_gateways=False),
}
