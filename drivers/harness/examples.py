"""The example programs: each takes the gateway's connection string from `MONGODB_URI`, and ends with 0 when all is as it has to be.

They run in a copy of their folder, so that nothing that a package manager or a compiler leaves is in the repository.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from . import venv
from .place import Place, Result
from .processes import must_run, run as run_program, tail

LIMIT_S = 400


@dataclass(frozen=True)
class Example:
    """A program."""

    name: str
    # What runs it.
    command: list
    # What fetches its packages: done once for each content of the file that lists them.
    fetch: list | None = None
    packages: str | None = None

    def run(self, place: Place, source: Path) -> Result:
        """Runs it; what is wrong is the end of what it said."""
        folder = place.cache / "example"
        shutil.copytree(source, folder, dirs_exist_ok=True)
        if self.fetch and self.packages:
            fetch(self.fetch, folder, (folder / self.packages).read_bytes(), place)
        log = place.work / "example.log"
        environment = os.environ | {"MONGODB_URI": place.deployment.uri_of_both}
        status = run_program(self.command, LIMIT_S, log, cwd=folder, env=environment)
        name = f"example in {self.name}"
        if status != 0:
            return Result(name, "0 passed, 1 failed", [f"it ended with {status}:\n{tail(log)}"])
        return Result(name, "1 passed, 0 failed")


def fetch(command: list, folder: Path, listed: bytes, place: Place) -> None:
    """Fetches packages into `folder`, unless those that are `listed` are there already."""
    done = place.cache / "fetched"
    if not done.exists() or done.read_bytes() != listed:
        must_run(command, LIMIT_S, place.work / "fetch.log", cwd=folder)
        done.write_bytes(listed)


NPM = {"fetch": ["npm", "ci", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund"], "packages": "package-lock.json"}


def python(place: Place) -> list[Result]:
    """The part `python`."""
    interpreter = venv.with_requirements(place.source / "requirements.txt", place.cache, place.work / "install.log")
    return [Example("Python", [interpreter, "transfer.py"]).run(place, place.source)]


def beanie(place: Place) -> list[Result]:
    """The part `beanie`."""
    interpreter = venv.with_requirements(place.source / "requirements.txt", place.cache, place.work / "install.log")
    return [Example("Beanie, eight workers", [interpreter, "workers.py"]).run(place, place.source)]


def node(place: Place) -> list[Result]:
    """The part `node`."""
    return [Example("Node with Mongoose", ["node", "transfer.mjs"], **NPM).run(place, place.source)]


def java(place: Place) -> list[Result]:
    """The part `java`."""
    return [Example("Java", ["mvn", "-B", "-q", "compile", "exec:java"]).run(place, place.source)]


def mongosh(place: Place) -> list[Result]:
    """The part `mongosh`."""
    shell = ["npx", "--no-install", "mongosh", "--quiet", "--norc", place.deployment.uri_of_both, "transfer.js"]
    return [Example("mongosh", shell, **NPM).run(place, place.source)]
