"""A client of DTranx in Python, of the standard library alone, written from docs/dtranx-wire.md.

    with Client([("127.0.0.1", 7101)]) as client:
        def transfer(tranx):
            balance = int(tranx.get(b"alice") or b"0")
            tranx.put(b"alice", b"%d" % (balance - 10))
        client.transact(transfer)
        print(client.snapshot().scan())
"""

from .client import Client, Tranx
from .errors import (
    EndedError,
    Error,
    LimitError,
    NotWelcomeError,
    OtherVersionError,
    RefusedError,
    UnavailableError,
    UnknownError,
)
from .snapshot import SnapshotView

__all__ = [
    "Client",
    "EndedError",
    "Error",
    "LimitError",
    "NotWelcomeError",
    "OtherVersionError",
    "RefusedError",
    "SnapshotView",
    "Tranx",
    "UnavailableError",
    "UnknownError",
]
