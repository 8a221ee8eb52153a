"""The list of a suite's tests that are known to fail, each with the reason, and what a run is
judged by.

A line of the list is `REASON TEST`; REASON is one word that docs/gateway.md explains. `at-least N`
is the number of tests that must pass: a suite that skips everything has no failures either.
`unjudged TEST` names one whose outcome is chance, whatever answers the driver; a line before it
says why. Empty lines and those that begin with `#` say nothing.
"""

from dataclasses import dataclass, field
from pathlib import Path

# Lines and columns of a failed test's message that are printed.
MESSAGE_LINES, MESSAGE_COLUMNS = 12, 300


@dataclass
class Outcome:
    """Outcome of a suite's tests."""

    passed: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    # The suite's message about each failed test.
    messages: dict[str, str] = field(default_factory=dict)

    def fail(self, test: str, message: str) -> None:
        """Adds a test that failed."""
        self.failed.add(test)
        self.messages[test] = message

    def without(self, tests: set[str]) -> "Outcome":
        """The outcome without these tests."""
        return Outcome(self.passed - tests, self.failed - tests, self.skipped - tests, self.messages)


@dataclass
class Expected:
    """A list of known failures."""

    at_least: int
    reasons: dict[str, str]
    unjudged: set[str] = field(default_factory=set)


def read(path: Path) -> Expected:
    """Reads a list; a line that cannot be understood is a `ValueError`."""
    expected = Expected(0, {})
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if not rest.strip() or rest.strip() in expected.reasons:
            raise ValueError(f"{path}:{number}: not `REASON TEST`, or twice the same test: {line!r}")
        if word == "at-least":
            expected.at_least = int(rest)
        elif word == "unjudged":
            expected.unjudged.add(rest.strip())
        else:
            expected.reasons[rest.strip()] = word
    return expected


def judge(outcome: Outcome, expected: Expected) -> list[str]:
    """What is wrong with an outcome, a line each; nothing if it is as expected."""
    known = set(expected.reasons)
    outcome = outcome.without(expected.unjudged)
    wrong = [_failure(test, outcome) for test in sorted(outcome.failed - known)]
    wrong += [f"passes, though it is on the list of failures: {test}" for test in sorted(outcome.passed & known)]
    gone = known - outcome.passed - outcome.failed
    wrong += [f"did not run, though it is on the list of failures: {test}" for test in sorted(gone)]
    if len(outcome.passed) < expected.at_least:
        wrong.append(f"only {len(outcome.passed)} tests passed; at least {expected.at_least} have to")
    return wrong


def _failure(test: str, outcome: Outcome) -> str:
    """A failure, and the end of its message: a run's logs may be gone when they are wanted."""
    lines = outcome.messages.get(test, "").strip().splitlines()[-MESSAGE_LINES:]
    return "\n".join([f"failed: {test}", *(f"      {line[:MESSAGE_COLUMNS]}" for line in lines)])


def tell(outcome: Outcome, expected: Expected) -> str:
    """The outcome in one line."""
    unjudged = len((outcome.passed | outcome.failed) & expected.unjudged)
    outcome = outcome.without(expected.unjudged)
    known = len(outcome.failed & set(expected.reasons))
    line = f"{len(outcome.passed)} passed, {len(outcome.failed)} failed"
    if known:
        line += f" ({known} of them known)"
    return line + f", {len(outcome.skipped)} skipped" + (f", {unjudged} not judged" if unjudged else "")
