"""The example programs: each takes the gateway's connection string from `MONGODB_URI`, and ends
with 0 when all is as it has to be.

They run in a copy of their folder, so that nothing that a package manager or a compiler leaves is
in the repository.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from . import venv
from .place import Place, Result
from .processes import Failed, must_run, run as run_program, tail, wait_until

LIMIT_S = 400
# Where a gateway listens unless it is told otherwise.
DEFAULT_ADDRESS = "127.0.0.1:27117"


@dataclass(frozen=True)
class Example:
    """A program."""

    name: str
    # Command that runs it.
    command: list
    # Command that fetches its packages: run once for each content of the file that lists them.
    fetch: list | None = None
    packages: str | None = None
    # Whether it connects to a replica set by its name, and to both members of that; otherwise to
    # routers.
    wants_replica_set: bool = False
    # Line of its output at which the set's primary is killed.
    loses_primary_at: str | None = None
    # Further variables of its environment.
    environment: dict = field(default_factory=dict)
    # Its file that names the default address, as the book does: the copy names the gateways'.
    names_default: str | None = None

    def run(self, place: Place, source: Path) -> Result:
        """Runs it; what is wrong is the end of what it said."""
        folder = place.cache / "example"
        shutil.copytree(source, folder, dirs_exist_ok=True)
        if self.fetch and self.packages:
            fetch(self.fetch, folder, (folder / self.packages).read_bytes(), place)
        log = place.work / "example.log"
        deployment = place.deployment
        uri = deployment.uri_of_set if self.wants_replica_set else deployment.uri_of_both
        if self.names_default:
            name_gateways(folder / self.names_default, uri)
        environment = os.environ | {"MONGODB_URI": uri} | self.environment
        meanwhile = (lambda process: self._lose_primary(place, process, log)) if self.loses_primary_at else None
        status = run_program(self.command, LIMIT_S, log, meanwhile, cwd=folder, env=environment)
        name = f"example in {self.name}"
        if status != 0:
            return Result(name, "0 passed, 1 failed", [f"it ended with {status}:\n{tail(log)}"])
        return Result(name, "1 passed, 0 failed")

    def _lose_primary(self, place: Place, process: subprocess.Popen, log: Path) -> None:
        def is_said() -> bool:
            return self.loses_primary_at in log.read_text(encoding="utf-8", errors="replace")

        wait_until(f"{self.name}: {self.loses_primary_at!r}", is_said, process, log, LIMIT_S)
        place.deployment.kill_primary()


def name_gateways(file: Path, uri: str) -> None:
    """Puts the hosts of `uri` into `file`, wherever it has the default address."""
    code = file.read_text(encoding="utf-8")
    if DEFAULT_ADDRESS not in code:
        raise Failed(f"{file.name} does not name {DEFAULT_ADDRESS}")
    hosts = uri.removeprefix("mongodb://").partition("/")[0]
    file.write_text(code.replace(DEFAULT_ADDRESS, hosts), encoding="utf-8")


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
    transfer = Example("Python", [interpreter, "transfer.py"])
    pages = [
        Example(f"Python, {of}", [interpreter, file], names_default=file)
        for of, file in [("guide", "guide.py"), ("README", "readme.py"), ("reference", "reference.py")]
    ]
    return [example.run(place, place.source) for example in (transfer, *pages)]


def beanie(place: Place) -> list[Result]:
    """The part `beanie`."""
    interpreter = venv.with_requirements(place.source / "requirements.txt", place.cache, place.work / "install.log")
    return [
        Example("Beanie, eight workers, failover", [interpreter, "workers.py"], wants_replica_set=True, loses_primary_at="half").run(
            place, place.source
        )
    ]


def browser(place: Place) -> list[Result]:
    """The part `browser`."""
    interpreter = venv.with_requirements(place.source / "requirements.txt", place.cache, place.work / "install.log")
    gateway = place.deployment.routers[0]
    where = {"MONGODB_URI": f"mongodb://127.0.0.1:{gateway.port}/", "MONGOTX_PAGE": gateway.page}
    return [Example("Chromium, the page", [interpreter, "page.py"], environment=where).run(place, place.source)]


def node(place: Place) -> list[Result]:
    """The part `node`: programs as for a router, and one that names a replica set."""
    transfer = Example("Node with Mongoose", ["node", "transfer.mjs"], **NPM)
    workers = Example("Mongoose, eight workers", ["node", "workers.mjs"], **NPM, wants_replica_set=True)
    pages = [
        Example(f"Mongoose, {of}", ["node", file], **NPM, names_default=file)
        for of, file in [("guide", "guide.mjs"), ("README", "readme.mjs")]
    ]
    return [example.run(place, place.source) for example in (transfer, *pages, workers)]


def payload(place: Place) -> list[Result]:
    """The part `payload`."""
    return [Example("Payload, eight workers", ["node", "workers.mjs"], **NPM, wants_replica_set=True).run(place, place.source)]


def spring(place: Place) -> list[Result]:
    """The part `spring`."""
    command = ["mvn", "-B", "-q", "compile", "exec:java"]
    return [Example("Spring Data, eight workers", command, wants_replica_set=True).run(place, place.source)]


def java(place: Place) -> list[Result]:
    """The part `java`."""
    command = ["mvn", "-B", "-q", "compile", "exec:java"]
    guide = Example("Java, guide", [*command, "-Dexec.mainClass=example.Guide"], names_default="src/main/java/example/Guide.java")
    return [example.run(place, place.source) for example in (Example("Java", command), guide)]


def mongosh(place: Place) -> list[Result]:
    """The part `mongosh`."""
    shell = ["npx", "--no-install", "mongosh", "--quiet", "--norc"]
    # `currentOp` shows the operations of one gateway, so its example connects to that one only.
    one = f"mongodb://127.0.0.1:{place.deployment.port}/"
    return [
        Example(name, [*shell, uri, script], **NPM).run(place, place.source)
        for name, uri, script in [
            ("mongosh", place.deployment.uri_of_both, "transfer.js"),
            ("mongosh, guide", place.deployment.uri_of_both, "guide.js"),
            ("mongosh, what runs", one, "current_op.js"),
        ]
    ]
