"""Server processes on free ports of the loopback interface, and the command line beside them.

`DTRANX` names the binary. The servers end with this process, however it ends: each waits for the
end of its standard input.
"""

import os
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from dtranx import Client

BINARY = os.environ.get("DTRANX", "dtranx")
# Time limit of one run of the command line, in seconds.
COMMAND_LIMIT_S = 60
# Time within which a server must listen, in seconds.
START_LIMIT_S = 60


class Servers:
    """Servers of the cluster `bank`, each with a folder of its own. `firsts`: the first key of each
    server's range; without it the keys are spread over three servers by their hash."""

    def __init__(self, secret: bytes | None = None, firsts: list[str] | None = None):
        self._secret, self._firsts = secret, firsts
        self._folder = tempfile.TemporaryDirectory(prefix="dtranx-")
        self._held: list[socket.socket] = []
        self._processes: list[subprocess.Popen | None] = []
        self.config = Path(self._folder.name, "bank.toml")
        for _ in range(3 if firsts is None else len(firsts)):
            self._hold_port()
        self._write_config()
        for at in range(len(self._held)):
            self.start(at)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The address of each server."""
        return [("127.0.0.1", held.getsockname()[1]) for held in self._held]

    def _hold_port(self) -> None:
        self._held.append(_held_port())
        self._processes.append(None)

    def _write_config(self) -> None:
        lines = ['cluster = "bank"', 'folder = "unused"', f"servers = [{self._listed()}]"]
        if self._secret is not None:
            self.secret_file = Path(self._folder.name, "secret")
            self.secret_file.touch(0o600)
            self.secret_file.write_bytes(self._secret)
            lines.append(f'secret_file = "{self.secret_file}"')
        lines += ["[limits]", "segment_mib = 16", "[threads]", "pinned = false"]
        if self._firsts is not None:
            firsts = enumerate(self._firsts)
            ranges = ", ".join(f'{{ first_key = "{first}", server = {at + 1} }}' for at, first in firsts)
            lines += ["[partition]", 'by = "ranges"', f"ranges = [{ranges}]"]
        self.config.write_text("\n".join([*lines, ""]))

    def _listed(self) -> str:
        """The servers in the configuration."""
        return ", ".join(f'{{ id = {at + 1}, address = "127.0.0.1:{port}" }}' for at, (_, port) in enumerate(self.addresses))

    def _which(self, at: int) -> list[str]:
        """Options that say which one a server is."""
        return ["--id", str(at + 1)]

    def add(self) -> int:
        """Starts one more server, which is the last of the list. The others have that list once
        they are started again. Returns its place."""
        self._hold_port()
        self._write_config()
        self.start(len(self._held) - 1)
        return len(self._held) - 1

    def __enter__(self) -> "Servers":
        return self

    def __exit__(self, *_) -> None:
        for at in range(len(self._held)):
            self.kill(at)
        for held in self._held:
            held.close()
        self._folder.cleanup()

    def start(self, at: int) -> None:
        """Starts a server; it listens when this returns."""
        folder = Path(self._folder.name, str(at + 1))
        with open(Path(self._folder.name, f"{at + 1}.log"), "ab") as log:
            self._processes[at] = subprocess.Popen(
                [BINARY, "serve", "--until-stdin-closes", "--config", self.config, *self._which(at), "--folder", folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        # A server that writes nothing is killed when its time is over.
        late = threading.Timer(START_LIMIT_S, self._processes[at].kill)
        late.start()
        line = self._processes[at].stdout.readline()
        late.cancel()
        if "listens on" not in line:
            raise RuntimeError(f"server {at + 1} does not listen: {line!r}; {self.log(at)}")

    def kill(self, at: int) -> None:
        """Ends a server in the middle of whatever it does."""
        process, self._processes[at] = self._processes[at], None
        if process is not None:
            process.kill()
            process.communicate()

    def log(self, at: int) -> str:
        """What a server has said on its standard error output."""
        return Path(self._folder.name, f"{at + 1}.log").read_text(errors="replace")

    def client(self, **options) -> Client:
        """A client that has the addresses of all servers."""
        return Client(self.addresses, **({"attempts": 10_000, "transact_s": 60} | options))

    def command(self, *words: str) -> subprocess.CompletedProcess:
        """Runs `dtranx` with these words, the first of which is the subcommand."""
        servers = [word for host, port in self.addresses for word in ("--server", f"{host}:{port}")]
        return subprocess.run(
            [BINARY, *words, *servers], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_LIMIT_S
        )


class Group(Servers):
    """One server that is a group of three members. Others are added and removed."""

    def _listed(self) -> str:
        members = ", ".join(f'"127.0.0.1:{port}"' for _, port in self.addresses[:3])
        return f"{{ id = 1, members = [{members}] }}"

    def _which(self, at: int) -> list[str]:
        if at < 3:
            return ["--id", "1", "--member", str(at + 1)]
        return ["--id", "1", "--join", f"127.0.0.1:{self.addresses[at][1]}"]

    def join(self) -> None:
        """Adds a member, as soon as its new store waits."""
        self._hold_port()
        at = len(self._held) - 1
        # It says that it listens once it has been added.
        starting = threading.Thread(target=self.start, args=(at,))
        starting.start()
        until = time.monotonic() + START_LIMIT_S
        while (added := self.command("member", "add", f"127.0.0.1:{self.addresses[at][1]}")).returncode != 0:
            if time.monotonic() > until:
                raise RuntimeError(added.stderr)
        starting.join()

    def remove(self, at: int) -> None:
        """Removes a member, and waits until its process has ended."""
        until = time.monotonic() + START_LIMIT_S
        while (removed := self.command("member", "remove", str(at + 1))).returncode != 0:
            # Those that stay may not be in step yet.
            if time.monotonic() > until:
                raise RuntimeError(removed.stderr)
        if self._processes[at] is not None:
            self._processes[at].wait(START_LIMIT_S)


def _held_port() -> socket.socket:
    """A free port: as long as this is open, the system gives it to no program that binds to any
    port, but a program that names it may listen."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held
