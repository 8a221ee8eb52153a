"""The server, the gateways and the client programs, as processes that are killed and started
again."""

import json
import os
import signal
import subprocess
import threading
import urllib.request
from pathlib import Path

from harness.deployment import _answers, _free_ports, _path_of_mongod
from harness.processes import Failed, end, must_run, start, tail, wait_until

PASSWORD = "soak"
# Short, so that the end need not be waited for: what clients that were killed have left goes after
# this.
TIMEOUTS = {"session-timeout": 60, "cursor-timeout": 30, "transaction-lifetime": 20}


class Gateway:
    """A gateway."""

    def __init__(self, name: str, port: int, metrics: int):
        self.name, self.port, self.metrics_port = name, port, metrics
        self.process: subprocess.Popen | None = None
        self._starts = 0

    @property
    def pid(self) -> int:
        return self.process.pid

    def start(self, stage: "Stage") -> None:
        self._starts += 1
        log = stage.work / f"{self.name}-{self._starts}.log"
        command = [stage.mongotx, "serve", "--config", stage.config, "--listen", f"127.0.0.1:{self.port}"]
        with open(log, "wb") as output:
            command += ["--metrics", f"127.0.0.1:{self.metrics_port}"]
            self.process = start(command, stdout=output, stderr=subprocess.STDOUT)
        wait_until(self.name, lambda: _answers(self.port), self.process, log)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        end(self.process)

    def metric(self, name: str) -> float:
        """A gauge without labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"mongotx_gateway_{name} "))


class Stage:
    """The server and two gateways, with users and a configuration that are changed."""

    def __init__(self, mongotx: Path, work: Path):
        self.mongotx, self.work = mongotx, work
        [self.port] = _free_ports(1)
        log, data = work / "mongod.log", work / "data"
        data.mkdir()
        command = [_path_of_mongod(mongotx), "--dbpath", data, "--port", str(self.port), "--bind_ip", "127.0.0.1", "--nounixsocket"]
        with open(log, "wb") as output:
            self.mongod = start([*command, "--wiredTigerCacheSizeGB", "0.5"], stdout=output, stderr=subprocess.STDOUT)
        wait_until("mongod", lambda: _answers(self.port), self.mongod, log)
        self.users, self.config = work / "users.json", work / "serve.toml"
        self._reloads = 0
        self._user("add", "soak", "--roles", "readWrite:soak")
        self._configure()
        ports = _free_ports(4)
        self.first, self.second = Gateway("gateway-1", ports[0], ports[1]), Gateway("gateway-2", ports[2], ports[3])
        for gateway in (self.first, self.second):
            gateway.start(self)

    @property
    def uri(self) -> str:
        """The server itself."""
        return f"mongodb://127.0.0.1:{self.port}/"

    @property
    def uri_of_gateways(self) -> str:
        both = f"127.0.0.1:{self.first.port},127.0.0.1:{self.second.port}"
        return f"mongodb://soak:{PASSWORD}@{both}/?authSource=admin"

    def reload(self) -> None:
        """Adds or removes a user, changes a limit, and has both gateways read the files again."""
        self._reloads += 1
        if self._reloads % 2:
            self._user("add", "guest", "--roles", "read:soak")
        else:
            self._user("remove", "guest")
        self._configure()
        for gateway in (self.first, self.second):
            if gateway.process.poll() is None:
                gateway.process.send_signal(signal.SIGHUP)

    def _user(self, action: str, name: str, *more: str) -> None:
        command = [self.mongotx, "user", action, name, "--users", self.users, *more]
        done = subprocess.run(command, input=f"{PASSWORD}\n", text=True, capture_output=True, timeout=60)
        if done.returncode != 0:
            raise Failed(f"mongotx user {action}: {done.stderr}")

    def _configure(self) -> None:
        numbers = TIMEOUTS | {"max-connections": 2000 + self._reloads, "slow-ms": 2000 + self._reloads}
        lines = [f'uri = "{self.uri}"', f'users = "{self.users}"', 'log-level = "warn"']
        text = "\n".join(lines + [f"{key} = {value}" for key, value in numbers.items()])
        beside = self.config.with_suffix(".new")
        beside.write_text(text + "\n", encoding="utf-8")
        beside.replace(self.config)


class Crew:
    """A program with clients of one driver. What it has done is known from the lines that it has
    written."""

    def __init__(self, name: str, command: list, clients: int, options):
        self.name, self._command, self._clients, self._options = name, command, clients, options
        self.process: subprocess.Popen | None = None
        # Results of each life of the program.
        self.lives: list[dict] = []

    def start(self, stage: Stage) -> None:
        life = {"name": f"{self.name}{len(self.lives)}", "committed": 0, "failed": 0, "unknown": 0, "read": 0, "killed": False}
        self.lives.append(life)
        environment = os.environ | {
            "MONGODB_URI": stage.uri_of_gateways,
            "SOAK_CLIENTS": str(self._clients),
            "SOAK_ACCOUNTS": str(self._options.accounts),
            "SOAK_PAUSE_S": str(self._options.pause),
            "SOAK_NAME": life["name"],
        }
        with open(stage.work / f"{life['name']}.log", "wb") as log:
            self.process = start(self._command, stdout=subprocess.PIPE, stderr=log, env=environment, text=True)
        threading.Thread(target=_read, args=(self.process, life), daemon=True).start()

    def kill(self) -> None:
        self.lives[-1]["killed"] = True
        self.process.send_signal(signal.SIGKILL)
        end(self.process)

    def listen(self) -> None:
        if self.process.poll() is not None:
            raise Failed(f"{self.name} has ended with {self.process.returncode}")

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(180)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} does not end") from None

    def total(self, what: str) -> int:
        return sum(life[what] for life in self.lives)

    def summary(self) -> str:
        return f"{self.name} {self.total('committed')} committed, {self.total('unknown')} unknown, {self.total('failed')} failed"


def _read(process: subprocess.Popen, life: dict) -> None:
    for line in process.stdout:
        if line.startswith("{"):
            life.update(json.loads(line))
