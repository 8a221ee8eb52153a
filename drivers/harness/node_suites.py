"""The own suites of MongoDB's Node driver and of Mongoose, unmodified, out of archives of their
sources (`--suites`).

The Node driver's archive lists its packages itself. Mongoose's lists none of its packages'
versions: `mongoose/package-lock.json` does, for what the tests need, and `node_modules` is made
above the sources, where Node looks as well.
"""

import shutil
import threading
from pathlib import Path

from . import expected, mocha
from .examples import NPM, fetch
from .place import Place, Result
from .processes import must_run

DRIVER = "node-mongodb-native-7.5.0.tar.xz"
MONGOOSE = "mongoose-9.9.3.tar.xz"
FETCH_LIMIT_S = 400
# For machines on which all suites and the compiler take turns: some 700 s are usual.
LIMIT_S = 2_400
# Longer than the longest test, which works for eleven seconds.
TEST_LIMIT_MS = 60_000
# The driver's folders in which more tests want a router than a replica set, and the others.
OF_ROUTERS = ["transactions", "transactions-convenient-api"]
OF_SET = [
    "sessions",
    "crud",
    "retryable-writes",
    "retryable-reads",
    "read-write-concern",
    "causal-consistency",
    "collection-management",
    "unified-test-format",
    "versioned-api",
    "command-logging-and-monitoring",
]
OF_STREAMS = ["change-streams"]
# Tests that are left out: docs/gateway.md lists them.
# They wait for a secondary until they are given up: on every replica set of one member.
WANT_SECONDARY = [
    "should respect client-level read preference",
    "when passing in a non-primary read preference",
    "reads on secondaries",
    "write stage on secondary when readPreference is secondary",
    "cursor count with secondary readPreference",
    "forces autoIndex & autoCreate to be false if read preference is secondary",
    "inherits its models schema read option and sends it",
]
# It waits for an event of a change stream that was refused.
WANT_CHANGE_STREAMS = ["writeConcern = 0 cursor creating operations with a getMore succeeds on changeStream"]
# They step the primary down and go on at another member.
WANT_ANOTHER_PRIMARY = ["should resume on ServerSelectionError"]
# They leave transactions open at one of two routers, and end all sessions at the one that chance
# picks: 20 seconds each, or none.
WANT_ONE_STORE_OF_SESSIONS = ["mongos-unpin"]
# Held while the driver's sources are unpacked.
_unpacking = threading.Lock()
LEFT_OUT = ["--grep", "|".join(WANT_SECONDARY + WANT_ANOTHER_PRIMARY + WANT_CHANGE_STREAMS + WANT_ONE_STORE_OF_SESSIONS), "--invert"]


def driver(place: Place) -> list[Result]:
    """The part `node-driver`."""
    return _driver(place, place.deployment.uri_of_set, OF_SET)


def driver_transactions(place: Place) -> list[Result]:
    """The part `node-transactions`."""
    return _driver(place, place.deployment.uri_of_both, OF_ROUTERS)


def driver_streams(place: Place) -> list[Result]:
    """The part `node-streams`."""
    return _driver(place, place.deployment.uri_of_set, OF_STREAMS)


def _driver(place: Place, uri: str, folders: list[str]) -> list[Result]:
    log = place.work / "fetch.log"
    # The parts of this driver run at the same time, and share its sources.
    cache = place.cache.with_name("node-driver")
    with _unpacking:
        cache.mkdir(exist_ok=True)
        suite = mocha.unpacked(place.suites / DRIVER, cache, lambda folder: must_run(NPM["fetch"], FETCH_LIMIT_S, log, cwd=folder))
    files = [f"test/integration/{folder}" for folder in folders]
    arguments = ["--config", "test/mocha_mongodb.js", "--timeout", str(TEST_LIMIT_MS), *LEFT_OUT, *files]
    program = suite / "node_modules/mocha/bin/mocha.js"
    return [_judged(DRIVER, place, mocha.run(program, arguments, {"AUTH": "noauth", "MONGODB_URI": uri}, suite, place.work, LIMIT_S))]


def mongoose(place: Place) -> list[Result]:
    """The part `mongoose`."""
    for name in ["package.json", NPM["packages"]]:
        shutil.copyfile(place.source / name, place.cache / name)
    fetch(NPM["fetch"], place.cache, (place.source / NPM["packages"]).read_bytes(), place)
    suite = mocha.unpacked(place.suites / MONGOOSE, place.cache, lambda folder: None)
    uri = place.deployment.uri_of_set
    environment = {"MONGOOSE_TEST_URI": uri, "MONGOOSE_REPLSET_URI": uri, "START_REPLICA_SET": "1"}
    arguments = ["--timeout", str(TEST_LIMIT_MS), *LEFT_OUT, "--ignore", "test/encryption/**", "test/**/*.test.js"]
    program = place.cache / "node_modules/mocha/bin/mocha.js"
    return [_judged(MONGOOSE, place, mocha.run(program, arguments, environment, suite, place.work, LIMIT_S))]


def _judged(archive: str, place: Place, outcome: expected.Outcome) -> Result:
    known = expected.read(place.source / "expected.txt")
    return Result(archive.removesuffix(".tar.xz"), expected.tell(outcome, known), expected.judge(outcome, known))
