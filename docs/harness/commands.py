"""Runs the commands of the book against one server, which they start themselves.

The words of the page are run, but for addresses and folders: those are replaced by free ones. A
command that serves has to say that it is ready, and to end well when it is asked to.
"""

import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from . import stand_ins
from .blocks import Block
from .open_transaction import OpenTransaction

# The longest that a command, or a server until it is ready, may take.
LIMIT_S = 120
# Where the pages have the server and the gateway.
SERVER, GATEWAY = "127.0.0.1:27017", "127.0.0.1:27117"
READY = "listening on "
SERVES = re.compile(r"\bserve\b")
TRANSACTION = re.compile(r"\b[0-9a-f]{24}\.\d+\b")


class Failed(Exception):
    """A command does not do what the page says."""


def run(chosen: list[Block], mongotx: Path, root: Path) -> list[str]:
    """Runs blocks in their order; what is wrong with which."""
    wrong = []
    with tempfile.TemporaryDirectory(prefix="mongotx-pages-") as folder, ExitStack() as ends:
        commands = Commands(Path(folder), mongotx, root, ends)
        for block in sorted_by_page(chosen):
            try:
                commands.run(block)
            except (Failed, OSError, ValueError, subprocess.TimeoutExpired) as error:
                wrong.append(f"{block.place}: {' '.join(str(error).split())}")
                print(f"code: {wrong[-1]}", flush=True)
    print(f"commands of pages: {len(chosen)} blocks run, {len(wrong)} failed")
    return wrong


def sorted_by_page(chosen: list[Block]) -> list[Block]:
    """Of each page, what configures a program comes after the commands: they make what it names."""
    pages = list(dict.fromkeys(block.page for block in chosen))
    return sorted(chosen, key=lambda block: (pages.index(block.page), block.language == "toml"))


class Commands:
    """The place where commands are run, with the server that they share."""

    def __init__(self, folder: Path, mongotx: Path, root: Path, ends: ExitStack):
        self.folder, self.root, self.ends = folder, root, ends
        self.server, self.gateway, self.unused = free_ports(3)
        self.pid = folder / "serving"
        self.etc = folder / "etc"
        self.etc.mkdir()
        self.environment = dict(os.environ)
        self.environment["PATH"] = f"{folder / 'bin'}:{os.environ['PATH']}"
        addresses = {"listen": f"127.0.0.1:{self.gateway}", "unused": f"127.0.0.1:{self.unused}"}
        stand_ins.write(folder / "bin", pid=self.pid, mongotx=mongotx, **addresses)

    def run(self, block: Block) -> None:
        """Runs a block; `Failed` if it does not do what it should."""
        print(f"  {block.place}", flush=True)
        code = self._placed(block.code)
        if block.language == "toml":
            self._configure(code)
        elif "mongod-path" in code:
            self._start_server(code)
        elif SERVES.search(code):
            self._end_gateway(self._start_gateway(code))
        elif re.search(r"\bID\b", code):
            self._look_at_a_transaction(code)
        else:
            self._must_run(code)

    def _placed(self, code: str) -> str:
        """The code with addresses and folders of this run."""
        code = code.replace(SERVER, f"127.0.0.1:{self.server}").replace(GATEWAY, f"127.0.0.1:{self.gateway}")
        code = code.replace("0.0.0.0:27117", f"127.0.0.1:{self.gateway}").replace("127.0.0.1:9216", "127.0.0.1:0")
        return code.replace("/etc/mongotx", str(self.etc)).replace("gateway:secret@", "")

    def _must_run(self, code: str) -> str:
        script = ["bash", "-euo", "pipefail", "-c", code]
        done = subprocess.run(
            script, cwd=self.folder, env=self.environment, input="a password\n", capture_output=True, text=True, timeout=LIMIT_S
        )
        if done.returncode != 0:
            raise Failed(f"it ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def _start(self, code: str) -> tuple[subprocess.Popen, Path]:
        """Starts a program that serves until everything ends, and its log."""
        log = self.folder / "log"
        with open(log, "wb") as output:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", code],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.ends.callback(end_group, process)
        return process, log

    def _start_server(self, code: str) -> None:
        """Starts the server of all that follows. The page leaves its port to `mongod`."""
        process, log = self._start(f"{code} --port {self.server}")

        def answers() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.server)) == 0

        wait_until(answers, process, log)

    def _start_gateway(self, code: str) -> subprocess.Popen:
        process, log = self._start(code)
        wait_until(lambda: READY in log.read_text(encoding="utf-8", errors="replace"), process, log)
        return process

    def _end_gateway(self, process: subprocess.Popen) -> None:
        os.kill(int(self.pid.read_text()), signal.SIGTERM)
        status = process.wait(LIMIT_S)
        if status != 0:
            raise Failed(f"the gateway ended with {status}")

    def _configure(self, code: str) -> None:
        """A configuration of the gateway is served; that of a program in Rust is resolved."""
        if "[dependencies]" in code:
            self._resolve(code)
            return
        (self.etc / "gateway.toml").write_text(code, encoding="utf-8")
        self._end_gateway(self._start_gateway(f"mongotx serve --config {self.etc}/gateway.toml"))

    def _resolve(self, code: str) -> None:
        """The crates, versions and features are there: found without the network, because the
        workspace has them."""
        project = self.folder / "program"
        (project / "src").mkdir(parents=True)
        (project / "src" / "main.rs").write_text("fn main() {}\n", encoding="utf-8")
        package = '[package]\nname = "program"\nversion = "0.0.0"\nedition = "2024"\n'
        named = code.replace('"../mongotx/', f'"{self.root}/')
        (project / "Cargo.toml").write_text(f"{package}{named}\n", encoding="utf-8")
        (project / "Cargo.lock").write_bytes((self.root / "Cargo.lock").read_bytes())
        command = ["cargo", "tree", "--offline", "--quiet", "--depth", "1"]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=LIMIT_S)
        if done.returncode != 0:
            raise Failed(f"cargo: {done.stderr}")

    def _look_at_a_transaction(self, code: str) -> None:
        """`ID` is the id of a transaction that a gateway has open."""
        uri = f"mongodb://127.0.0.1:{self.server}"
        gateway = self._start_gateway(f"mongotx serve --uri {uri}")
        transaction = OpenTransaction(self.gateway)
        found = TRANSACTION.search(self._must_run(f"mongotx ls --uri {uri}"))
        if found is None:
            raise Failed("`mongotx ls` does not list a transaction that is open")
        said = self._must_run(re.sub(r"\bID\b", found[0], code))
        if said.count(found[0]) < 3:
            raise Failed(f"not every command names {found[0]}: {said}")
        transaction.close()
        self._end_gateway(gateway)


def wait_until(is_ready, process: subprocess.Popen, log: Path) -> None:
    """Waits until `is_ready` says so; `Failed` if the program ends before."""
    deadline = time.monotonic() + LIMIT_S
    while not is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise Failed(f"it is not ready: {log.read_text(encoding='utf-8', errors='replace')[-2000:]}")
        time.sleep(0.05)


def end_group(process: subprocess.Popen) -> None:
    """Ends a program with all that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait(LIMIT_S)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that are free now."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
