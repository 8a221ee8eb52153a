"""PyMongo's own tests, unmodified, out of its source distribution.

1. The source distribution is fetched with pip. The specification's JSON in it is not ours to keep
   in the repository.
2. Its tests are put into a folder without its sources, so that they use the installed package.
3. One pytest runs the files; what became of each test is read from the JUnit report and compared
   with `pymongo/expected.txt`.
"""

import os
import shutil
import tarfile
import xml.etree.ElementTree as xml
from pathlib import Path

from . import expected, venv
from .place import Place, Result
from .processes import Failed, must_run, run as run_program, tail

VERSION = "4.20.0"
PYTHON = (3, 11)
FILES = [
    "test_transactions",
    "test_transactions_unified",
    "test_session",
    "test_sessions_unified",
    "test_crud_unified",
    "test_retryable_writes",
    "test_retryable_writes_unified",
    "test_causal_consistency",
]
STREAMS = ["test_change_stream"]
TAKEN = ["test", "tools", "pyproject.toml"]
FETCH_LIMIT_S = 300
# For machines on which all suites and the compiler take turns: some 700 s are usual.
LIMIT_S = 2_400


def run(place: Place) -> list[Result]:
    """The part `pymongo`."""
    return _run(place, f"PyMongo {VERSION}", FILES, place.deployment.port)


def run_streams(place: Place) -> list[Result]:
    """The part `pymongo-streams`: more of these tests are for a replica set."""
    return _run(place, f"PyMongo {VERSION}, change streams", STREAMS, place.deployment.members[0].port)


def _run(place: Place, name: str, files: list[str], port: int) -> list[Result]:
    log = place.work / "install.log"
    python = venv.with_requirements(place.source / "requirements.txt", place.cache, log)
    suite = _suite(python, place.cache, log)
    report, log = place.work / "report.xml", place.work / "pytest.log"
    command = [python, "-m", "pytest", "-q", "-m", "default", f"--junitxml={report}", "--durations=30"]
    command += [f"test/{name}.py" for name in files]
    environment = os.environ | {"DB_IP": "127.0.0.1", "DB_PORT": str(port)}
    run_program(command, LIMIT_S, log, cwd=suite, env=environment)
    if not report.exists():
        raise Failed(f"pytest wrote no report; the end of {log}:\n{tail(log)}")
    outcome = read_report(report)
    known = expected.read(place.source / "expected.txt")
    return [Result(name, expected.tell(outcome, known), expected.judge(outcome, known))]


def _suite(python: Path, cache: Path, log: Path) -> Path:
    """Steps 1 and 2."""
    suite = cache / f"suite-{VERSION}"
    if suite.exists():
        return suite
    fetched = cache / "fetched"
    shutil.rmtree(fetched, ignore_errors=True)
    wanted = ["--no-deps", "--no-binary=pymongo", f"pymongo=={VERSION}"]
    must_run([python, "-m", "pip", "download", "-q", "-d", fetched, *wanted], FETCH_LIMIT_S, log)
    with tarfile.open(fetched / f"pymongo-{VERSION}.tar.gz") as archive:
        archive.extractall(fetched, filter="data")
    ready = fetched / "suite"
    ready.mkdir()
    for name in TAKEN:
        (fetched / f"pymongo-{VERSION}" / name).rename(ready / name)
    ready.rename(suite)
    shutil.rmtree(fetched)
    return suite


def read_report(report: Path) -> expected.Outcome:
    """Step 3: what became of each test."""
    outcome = expected.Outcome()
    for case in xml.parse(report).iter("testcase"):
        test = f"{case.get('classname', '').removeprefix('test.')}.{case.get('name')}"
        failures = [*case.iter("failure"), *case.iter("error")]
        if failures:
            outcome.fail(test, failures[0].text or "")
        elif case.find("skipped") is not None:
            outcome.skipped.add(test)
        else:
            outcome.passed.add(test)
    # A test whose cleaning up fails is reported twice.
    outcome.passed -= outcome.failed
    return outcome
