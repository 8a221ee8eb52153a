"""A standalone mongod with test commands, and two gateways in front of it at neighbouring ports,
which show routers; for who wants them, others that show a replica set of one or two members.

PyMongo's suite looks for a second router at the port after the first one's.
"""

import os
import random
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .processes import Failed, end, kill, start, tail, wait_until

# Below the range from which Linux takes the ports of outgoing connections.
FIRST_PORT, LAST_PORT = 20_000, 31_000
ATTEMPTS = 200
# Parts that run at the same time are given different ports.
_given: set[int] = set()
_giving = threading.Lock()
FIND_MONGOD_LIMIT_S = 600
REPLICA_SET = "rs0"
# Words before the address of a gateway's page in its log.
PAGE_AT = "page at "
# Words in the log of a gateway that serves.
LISTENS = "listening on "
# The data are in memory where there is room: suites make and drop a collection for every test, and
# the data are of no use afterwards.
MEMORY = Path("/dev/shm")
ROOM_BYTES = 2 * 1024**3


@dataclass(frozen=True)
class Gateway:
    """A gateway that runs."""

    name: str
    port: int
    process: subprocess.Popen
    log: Path

    @property
    def page(self) -> str:
        """Address of its page for operators."""
        said = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return next(line for line in said if line.startswith(PAGE_AT)).removeprefix(PAGE_AT)


@dataclass(frozen=True)
class Deployment:
    """What the suites and examples connect to."""

    routers: tuple[Gateway, Gateway]
    # The gateways that show a replica set. The first one is its primary.
    members: tuple[Gateway, ...]
    # The gateways that were killed on purpose.
    killed: list[Gateway] = field(default_factory=list)

    @property
    def port(self) -> int:
        """The first router's. The other one's is the next."""
        return self.routers[0].port

    @property
    def uri_of_both(self) -> str:
        """The connection string of both routers."""
        return f"mongodb://{','.join(f'127.0.0.1:{gateway.port}' for gateway in self.routers)}/"

    @property
    def uri_of_set(self) -> str:
        """The connection string of the replica set."""
        if not self.members:
            raise Failed("this part has no replica set")
        return f"mongodb://{','.join(f'127.0.0.1:{gateway.port}' for gateway in self.members)}/?replicaSet={REPLICA_SET}"

    def kill_primary(self) -> None:
        """Kills the primary in the middle of its work."""
        primary = self.members[0]
        self.killed.append(primary)
        kill(primary.process)

    @property
    def gateways(self) -> tuple[Gateway, ...]:
        """All gateways."""
        return (*self.routers, *self.members)


def deploy(mongotx: Path, work: Path, data: Path, members: int, options: Sequence[str] = ()) -> Deployment:
    """Starts the server and the gateways, with logs in `work`; they are ended with everything else.
    So many of these show a replica set. `options`: more of theirs."""
    log = work / "mongod.log"
    [port] = _free_ports(1)
    command = [_path_of_mongod(mongotx), "--dbpath", data, "--port", str(port), "--bind_ip", "127.0.0.1"]
    _start("mongod", [*command, "--nounixsocket", "--setParameter", "enableTestCommands=1"], port, log)
    uri = f"mongodb://127.0.0.1:{port}"
    first, second = (_gateway(mongotx, uri, port, work, options) for port in _free_ports(2))
    of_set = [_member(mongotx, uri, port, work, options, alone=members == 1) for port in _free_ports(members)] if members else []
    return Deployment((first, second), tuple(of_set))


def _member(mongotx: Path, uri: str, port: int, work: Path, options: Sequence[str], alone: bool) -> Gateway:
    # Several gateways announce their addresses to each other, and to drivers.
    where = [] if alone else ["--advertise", f"127.0.0.1:{port}"]
    return _gateway(mongotx, uri, port, work, ["--as-replica-set", REPLICA_SET, *where, *options])


def data_folder(work: Path) -> Path:
    """A new folder for a server's data. The caller removes it."""
    has_room = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM_BYTES
    return Path(tempfile.mkdtemp(prefix="mongotx-drivers-", dir=MEMORY if has_room else work))


def _gateway(mongotx: Path, uri: str, port: int, work: Path, more: Sequence[str] = ()) -> Gateway:
    name, log = f"gateway {port}", work / f"gateway-{port}.log"
    command = [mongotx, "serve", "--uri", uri, "--listen", f"127.0.0.1:{port}", "--web", "127.0.0.1:0", "--enable-test-commands"]
    process = _start(name, [*command, *more], port, log)
    # The log says when it serves. A member of a set takes its port before it is one.
    wait_until(name, lambda: LISTENS in log.read_text(encoding="utf-8", errors="replace"), process, log)
    return Gateway(name, port, process, log)


def end_well(deployment: Deployment) -> None:
    """Ends the gateways; `Failed` if one of them was gone already, or does not end as it should, or
    panicked before."""
    for gateway in deployment.gateways:
        if gateway in deployment.killed:
            continue
        is_gone = gateway.process.poll() is not None
        end(gateway.process)
        panicked = "panicked" in gateway.log.read_text(encoding="utf-8", errors="replace")
        if is_gone or panicked or gateway.process.returncode != 0:
            raise Failed(f"{gateway.name} ended with {gateway.process.returncode}:\n{tail(gateway.log)}")


def _path_of_mongod(mongotx: Path) -> str:
    found = subprocess.run([mongotx, "mongod-path"], stdout=subprocess.PIPE, text=True, timeout=FIND_MONGOD_LIMIT_S)
    if found.returncode != 0:
        raise Failed("no mongod was found")
    return found.stdout.strip()


def _start(what: str, command, port: int, log: Path) -> subprocess.Popen:
    with open(log, "wb") as output:
        process = start(command, stdout=output, stderr=subprocess.STDOUT)
    wait_until(what, lambda: _answers(port), process, log)
    return process


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_ports(count: int) -> list[int]:
    """Neighbouring ports on which no process listened a moment ago. One that is lost in between
    ends the run with an error."""
    for _ in range(ATTEMPTS):
        start_port = random.randrange(FIRST_PORT, LAST_PORT - count)
        ports = list(range(start_port, start_port + count))
        with _giving:
            if all(port not in _given and _is_free(port) for port in ports):
                _given.update(ports)
                return ports
    raise Failed(f"no {count} neighbouring free ports between {FIRST_PORT} and {LAST_PORT}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
