"""Runs the soak: starts everything, disturbs it, and checks what is left. Exit status: 0 all is
well, 1 something is not, 2 it could not be begun."""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import venv
from harness.processes import Failed, end_all, must_run

from .checks import Books, Memory, check_end
from .parts import Crew, Stage

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = ROOT / "target" / "drivers" / "soak"
RELOAD_S, KILL_S, CHECKPOINT_S, SAMPLE_S = 40, 60, 150, 5


def main() -> int:
    """`drivers/soak/run`."""
    options = _options()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    os.nice(10)
    CACHE.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="run-", dir=CACHE))
    wrong: list[str] = ["it was interrupted"]
    try:
        wrong = _run(options, work)
    except Failed as error:
        print(f"drivers/soak/run: {error}", file=sys.stderr)
        return 2
    finally:
        end_all()
        if not wrong:
            shutil.rmtree(work)
    for line in wrong:
        print(f"WRONG: {line}")
    print(f"logs: {work}" if wrong else "all is well")
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="drivers/soak/run", description="Many clients for a long time, with kills and reloads.")
    parser.add_argument("--minutes", type=float, default=15, help="how long the clients work (15)")
    parser.add_argument("--clients", type=int, default=200, help="clients, of all drivers together (200)")
    parser.add_argument("--pause", type=float, default=5, metavar="SECONDS", help="between two transactions of a client (5)")
    parser.add_argument("--accounts", type=int, default=1000, help="accounts that they transfer between (1000)")
    parser.add_argument("--mongotx", type=Path, metavar="FILE", help="the built binary; without it, cargo builds one")
    return parser.parse_args()


def _run(options: argparse.Namespace, work: Path) -> list[str]:
    mongotx = (options.mongotx or _build()).resolve()
    if not os.access(mongotx, os.X_OK):
        raise Failed(f"--mongotx {mongotx}: no such program")
    programs = _programs(work)
    stage = Stage(mongotx, work)
    sys.path.append(str(next((CACHE / "venv" / "lib").glob("python3*")) / "site-packages"))
    books = Books(stage, options.accounts)
    crews = [Crew(name, program, options.clients // 3 + (n < options.clients % 3), options) for n, (name, program) in enumerate(programs.items())]
    for crew in crews:
        crew.start(stage)
    memory = Memory()
    wrong = _disturb(options.minutes * 60, stage, crews, books, memory)
    for crew in crews:
        crew.end()
    return wrong + check_end(stage, crews, books, memory)


def _disturb(length_s: float, stage: Stage, crews: list[Crew], books: Books, memory: Memory) -> list[str]:
    """Lets the programs work, and kills and reloads gateways meanwhile."""
    began = time.monotonic()
    due = {"reload": RELOAD_S, "kill": KILL_S, "checkpoint": CHECKPOINT_S, "sample": SAMPLE_S}
    every, victims, wrong, n = dict(due), [stage.second, *crews], [], 0
    while (now := time.monotonic() - began) < length_s:
        for what in [what for what, at in due.items() if at <= now]:
            due[what] = now + every[what]
            if what == "reload":
                stage.reload()
            elif what == "kill":
                victim = victims[n % len(victims)]
                n += 1
                print(f"{now:.0f} s: kills {victim.name}; {', '.join(crew.summary() for crew in crews)}", flush=True)
                victim.kill()
                time.sleep(random.uniform(0, 3))
                victim.start(stage)
            elif what == "checkpoint":
                wrong += books.checkpoint()
            else:
                memory.sample(now, stage.first.pid)
        for crew in crews:
            crew.listen()
        time.sleep(0.2)
    return wrong


def _programs(work: Path) -> dict[str, list]:
    """The three programs, with what they need."""
    python = venv.with_requirements(HERE / "requirements.txt", CACHE, work / "install.log")
    node = CACHE / "node"
    shutil.copytree(HERE, node, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.py", "clients", "run"))
    must_run(["npm", "ci", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund"], 400, work / "npm.log", cwd=node)
    go = CACHE / "clients"
    must_run(["go", "build", "-o", go, "."], 600, work / "go.log", cwd=HERE / "clients")
    return {"pymongo": [python, HERE / "clients.py"], "go": [go], "node": ["node", node / "clients.mjs"]}


def _build() -> Path:
    if subprocess.run(["cargo", "build", "-p", "mongotx-cli"], cwd=ROOT).returncode != 0:
        raise Failed("cargo could not build mongotx")
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug" / "mongotx"
