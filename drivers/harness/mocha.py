"""Suites that mocha runs, out of archives of their projects' sources, which packages in the
registry do not have.

1. The archive is unpacked into the part's cache once; `prepare` puts its packages there.
2. mocha runs the files; what became of each test is read from its JSON report.
"""

import json
import os
import shutil
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from . import expected
from .processes import Failed, run as run_program, tail


def unpacked(archive: Path, cache: Path, prepare: Callable[[Path], None]) -> Path:
    """Step 1: the folder of the sources. `prepare` is given it before it counts as done."""
    suite = cache / archive.name.removesuffix(".tar.xz")
    if suite.exists():
        return suite
    fetched = cache / "unpacked"
    shutil.rmtree(fetched, ignore_errors=True)
    with tarfile.open(archive) as sources:
        sources.extractall(fetched, filter="data")
    [folder] = fetched.iterdir()
    prepare(folder)
    folder.rename(suite)
    fetched.rmdir()
    return suite


def run(mocha: Path, arguments: list[str], environment: dict[str, str], suite: Path, work: Path, limit_s: int) -> expected.Outcome:
    """Step 2, for arguments of mocha's, in the folder of the sources."""
    report, log = work / "report.json", work / "mocha.log"
    command = ["node", mocha, "--exit", "--reporter", "json", "--reporter-option", f"output={report}", *arguments]
    run_program(command, limit_s, log, cwd=suite, env=os.environ | environment)
    if not report.exists():
        raise Failed(f"mocha wrote no report; the end of {log}:\n{tail(log)}")
    return read_report(json.loads(report.read_text(encoding="utf-8")), suite)


def read_report(report: dict, suite: Path) -> expected.Outcome:
    """What became of each test. One that is reported twice (it failed when it ran and when it was
    cleaned up) has failed."""
    outcome = expected.Outcome()
    for name, tests in [("passes", outcome.passed), ("failures", outcome.failed), ("pending", outcome.skipped)]:
        seen: Counter[str] = Counter()
        for test in report[name]:
            title = f"{_file(test, suite)}: {' '.join(test['fullTitle'].split())}"
            seen[title] += 1
            # Tests that run have titles of their own; where they have not, each is counted.
            is_copy = seen[title] > 1 and name != "failures"
            tests.add(f"{title} #{seen[title]}" if is_copy else title)
            if name == "failures":
                outcome.messages[title] = _message(test.get("err", {}))
    outcome.passed -= outcome.failed
    return outcome


def _message(error: dict) -> str:
    """The beginning of a stack: its end is mocha's own."""
    return "\n".join((error.get("stack") or error.get("message") or "").splitlines()[: expected.MESSAGE_LINES])


def _file(test: dict, suite: Path) -> str:
    """Where a test is; a hook of the whole run is nowhere."""
    file = test.get("file")
    return str(Path(file).relative_to(suite)) if file else "-"
