"""Runs the chosen parts, each on servers of its own, and reports the results. The longest suites
wait more than they work: they run beside the other parts, which run one after the other.

Exit status: 0 everything is as expected, 1 something is not, 2 it could not be begun, 128 + n ended
by signal n.
"""

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from . import test_expected, test_pauses
from .deployment import data_folder, deploy, end_well
from .parts import PARTS
from .pauses import Pauses
from .place import Place, Result
from .processes import Failed, end_all, end_own

DRIVERS = Path(__file__).resolve().parent.parent
ROOT = DRIVERS.parent
SUITES = ROOT.parent / "shared" / "suites"
CACHE = ROOT / "target" / "drivers"
LONGEST = ["pymongo", "go", "node-driver", "node-transactions", "node-streams", "mongoose"]


@dataclass(frozen=True)
class Run:
    """What all parts of a run have in common."""

    mongotx: Path
    dtranx: Path
    suites: Path
    # Folder of its logs.
    work: Path
    pauses: Pauses


def main() -> int:
    """`drivers/run`."""
    options = _options()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        try:
            # The parts of one run share fetched and unpacked files. The lock ends with this
            # process, however that ends.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"drivers/run: another one is at work in {CACHE}", file=sys.stderr)
            return 2
        return _run_in_folder(options)


def _run_in_folder(options: argparse.Namespace) -> int:
    work = Path(tempfile.mkdtemp(prefix="run-", dir=CACHE))
    is_well = False
    try:
        is_well = _run(options, work)
        return 0 if is_well else 1
    except Failed as error:
        print(f"drivers/run: {error}", file=sys.stderr)
        return 2
    finally:
        end_all()
        if is_well:
            shutil.rmtree(work)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="drivers/run", description="Runs drivers' own suites and example programs.")
    parser.add_argument("--mongotx", type=Path, metavar="FILE", help="the binary, built with the feature `testing`; without it, cargo builds one")
    parser.add_argument("--dtranx", type=Path, metavar="FILE", help="the built `dtranx`; without it, the one beside mongotx")
    parser.add_argument(
        "--suites", type=Path, metavar="DIR", default=SUITES, help=f"archives of the suites that no registry has; default: {SUITES}"
    )
    parser.add_argument("part", nargs="*", help=f"{', '.join(PARTS)}; without any: all that this machine has the tools for")
    options = parser.parse_args()
    for part in options.part:
        if part not in PARTS:
            parser.error(f"there is no part {part!r}; there are {', '.join(PARTS)}")
        if lacks := PARTS[part].lacks(options.suites):
            parser.error(f"{part} cannot be run: this machine has no {lacks}")
    return options


def _interrupted(number: int, _frame) -> None:
    # Once only: the programs that were started are being ended.
    for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    print("drivers/run: interrupted; ending what was started", file=sys.stderr)
    sys.exit(128 + number)


def _run(options: argparse.Namespace, work: Path) -> bool:
    loader = unittest.defaultTestLoader
    own = unittest.TestSuite(loader.loadTestsFromModule(module) for module in (test_expected, test_pauses))
    if not unittest.TextTestRunner(verbosity=0).run(own).wasSuccessful():
        return False
    mongotx = (options.mongotx or _build()).resolve()
    dtranx = (options.dtranx or mongotx.with_name("dtranx")).resolve()
    parts = options.part or list(PARTS)
    needed = [("--mongotx", mongotx)] + [("--dtranx", dtranx)] * ("dtranx" in parts)
    for option, program in needed:
        if not os.access(program, os.X_OK):
            raise Failed(f"{option} {program}: no such program")
    lanes = [[name] for name in parts if name in LONGEST] + [[name for name in parts if name not in LONGEST]]
    this = Run(mongotx, dtranx, options.suites.resolve(), work, Pauses())
    this.pauses.begin()
    with ThreadPoolExecutor(len(lanes)) as threads:
        try:
            futures = [threads.submit(_lane, names, this) for names in lanes]
            results = [result for lane in futures for result in lane.result()]
        finally:
            # Without this, the lanes would wait for programs that still run.
            end_all()
    print("\nsummary")
    for result in results:
        print(f"  {result.name:30} {result.summary}{'  WRONG' if result.wrong else ''}")
        for wrong in result.wrong:
            print(indent(wrong, "    "))
    wrong = [result for result in results if result.wrong]
    if wrong:
        print(f"logs: {work}")
    return not wrong


def _build() -> Path:
    # The suites make commands fail, which the released program does not let them.
    command = ["cargo", "build", "--bin", "mongotx", "--bin", "dtranx", "--features", "mongotx-cli/testing"]
    if subprocess.run(command, cwd=ROOT).returncode != 0:
        raise Failed("cargo could not build mongotx and dtranx")
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug" / "mongotx"


def _lane(names: list[str], this: Run) -> list[Result]:
    results = []
    for name in names:
        if lacks := PARTS[name].lacks(this.suites):
            results.append(Result(name, f"NOT RUN: this machine has no {lacks}"))
        else:
            results += _part_unpaused(name, this)
    return results


def _part_unpaused(name: str, this: Run) -> list[Result]:
    """A part that failed while the machine stood still is run once more, and that counts."""
    began = time.monotonic()
    results = _part(name, this, this.work / name)
    paused_s = this.pauses.since(began)
    if paused_s == 0 or not any(result.wrong for result in results):
        return results
    print(f"{name}: once more, because the machine stood still for {paused_s:.0f} s meanwhile", flush=True)
    return _part(name, this, this.work / f"{name}-again")


def _part(name: str, this: Run, folder: Path) -> list[Result]:
    print(f"{name} …", flush=True)
    began = time.monotonic()
    cache = CACHE / name
    folder.mkdir()
    cache.mkdir(exist_ok=True)
    part, data = PARTS[name], data_folder(folder)
    try:
        deployment = deploy(this.mongotx, folder, data, part.members, part.options) if part.has_gateways else None
        results = part.run(Place(DRIVERS / name, cache, folder, this.suites, this.dtranx, deployment))
        if deployment is not None:
            end_well(deployment)
    except Failed as error:
        results = [Result(name, "could not be run to its end", [str(error)])]
    finally:
        end_own()
        shutil.rmtree(data, ignore_errors=True)
    lines = [f"{name}: {time.monotonic() - began:.0f} s"]
    for result in results:
        lines += [f"  {result.name}: {result.summary}", *(indent(wrong, "    ") for wrong in result.wrong)]
    print("\n".join(lines), flush=True)
    return results
