"""The Go driver's own integration tests, out of its module, and the example programs.

1. The module is fetched by the go command. Its folder in the module cache is read-only and has a
   `vendor` folder that lacks what tests need: a copy without it is made.
2. The tests run there; what became of each is read from go's JSON events and compared with
   `go/expected.txt`.
"""

import json
import os
import shutil
import stat
from pathlib import Path

from . import expected
from .examples import Example
from .place import Place, Result
from .processes import Failed, must_run, run as run_program, tail

MODULE = "go.mongodb.org/mongo-driver"
VERSION = "v1.17.10"
FETCH_LIMIT_S = 300
# For machines on which all suites and the compiler take turns: some 700 s are usual.
LIMIT_S = 2_400
# Packages, and which of their tests.
SUITES = {
    "mongo/integration": "|".join(
        [
            "^TestUnifiedSpecs$/^(transactions|convenient-transactions|read-write-concern)",
            "^Test(CrudSpec|RetryableWritesSpec|RetryableWritesProse|WriteErrorsWithLabels|WriteErrorsDetails|HintErrors)$",
            "^Test(WriteConcernError|ErrorsCodeNamePropagated|CausalConsistency_Supported|MongosPinning)$",
            "^Test(SessionPool|Sessions|SessionsProse)$",
        ]
    ),
    "mongo/integration/unified": "^TestUnifiedSpec$/^(transactions|crud|retryable-writes|sessions)",
}

STREAMS = {
    "mongo/integration": "^TestChangeStream_ReplicaSet$",
    "mongo/integration/unified": "^TestUnifiedSpec$/^change-streams",
}


def run(place: Place) -> list[Result]:
    """The part `go`."""
    suite = _run(place, f"Go driver {VERSION}", SUITES, place.deployment.uri_of_both)
    guide = Example("Go, guide", ["go", "run", "./guide"], names_default="guide/main.go")
    return [suite, *(example.run(place, place.source / "transfer") for example in (Example("Go", ["go", "run", "."]), guide))]


def run_streams(place: Place) -> list[Result]:
    """The part `go-streams`."""
    return [_run(place, f"Go driver {VERSION}, change streams", STREAMS, place.deployment.uri_of_set)]


def _run(place: Place, name: str, suites: dict[str, str], uri: str) -> Result:
    module = _module(place.cache, place.work / "install.log")
    environment = os.environ | {"MONGODB_URI": uri}
    outcome = expected.Outcome()
    wrong = []
    for package, tests in suites.items():
        log = place.work / f"{package.rpartition('/')[2]}.json"
        command = ["go", "test", "-mod=mod", "-count=1", "-json", f"-timeout={LIMIT_S}s", f"-run={tests}", f"./{package}"]
        status = run_program(command, LIMIT_S + 60, log, cwd=module, env=environment)
        failed_before = len(outcome.failed)
        read_events(log, package, outcome)
        if status != 0 and len(outcome.failed) == failed_before:
            wrong.append(f"go test {package} ended with {status}; the end of {log}:\n{tail(log)}")
    known = expected.read(place.source / "expected.txt")
    wrong += expected.judge(outcome, known)
    return Result(name, expected.tell(outcome, known), wrong)


def _module(cache: Path, log: Path) -> Path:
    """Step 1."""
    module = cache / f"driver-{VERSION}"
    if module.exists():
        return module
    must_run(["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"], FETCH_LIMIT_S, log, cwd=cache)
    fetched = Path(json.loads(log.read_text(encoding="utf-8"))["Dir"])
    ready = cache / "copy"
    shutil.rmtree(ready, ignore_errors=True)
    shutil.copytree(fetched, ready, ignore=shutil.ignore_patterns("vendor"), copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(ready):
        os.chmod(folder, stat.S_IRWXU)
    ready.rename(module)
    return module


def read_events(log: Path, package: str, outcome: expected.Outcome) -> None:
    """Step 2. Only tests that have no tests in them are counted, and those that fail by
    themselves."""
    ended: dict[str, str] = {}
    said: dict[str, list[str]] = {}
    with open(log, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("{"):
                event = json.loads(line)
                if "Test" in event and event["Action"] in ("pass", "fail", "skip"):
                    ended[event["Test"]] = event["Action"]
                elif "Test" in event and event["Action"] == "output":
                    said.setdefault(event["Test"], []).append(event["Output"])
    if not ended:
        raise Failed(f"no test of {package} ran; the end of {log}:\n{tail(log)}")
    parents = {test.rpartition("/")[0] for test in ended}
    failed = {test for test, action in ended.items() if action == "fail"}
    for test, action in ended.items():
        if test in parents and (action != "fail" or any(other.startswith(f"{test}/") for other in failed)):
            continue
        if action == "fail":
            outcome.fail(test, "".join(said.get(test, [])))
        else:
            {"pass": outcome.passed, "skip": outcome.skipped}[action].add(test)
