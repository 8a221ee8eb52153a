"""The place where a part runs, and its result."""

from dataclasses import dataclass, field
from pathlib import Path

from .deployment import Deployment


@dataclass(frozen=True)
class Place:
    """What a part may use."""

    # The part's folder in the repository; nothing is written there.
    source: Path
    # Fetched files, kept from one run to the next.
    cache: Path
    # Logs of this run.
    work: Path
    # Archives of sources, if any are here (`--suites`).
    suites: Path
    # The binary `dtranx`.
    dtranx: Path
    # None for a part that has no gateways.
    deployment: Deployment | None


@dataclass
class Result:
    """A line of the summary."""

    name: str
    summary: str
    wrong: list[str] = field(default_factory=list)
