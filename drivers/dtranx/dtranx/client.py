"""The client: transactions, and snapshots. One thread at a time may use a client."""

import random
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from .cluster import addresses_of, map_id, server_of, servers_of
from .connection import Link
from .errors import EndedError, LimitError, RefusedError, UnavailableError, UnknownError
from .messages import (
    BEGIN_AGAIN,
    GIVE_UP,
    MAX_ITEMS,
    MAX_KEY_BYTES,
    MAX_TRANSACTION_BYTES,
    MAX_VALUE_BYTES,
    Again,
    Before,
    Cluster,
    Commit,
    CommitAgain,
    Committed,
    CommitReply,
    Found,
    FoundAt,
    Get,
    GetAt,
    Item,
    Made,
    Range,
    Read,
    Refused,
    Scan,
    ScanAt,
    ScanRead,
    Snapshot,
    SnapshotReply,
    SnapshotTooOld,
    Stale,
    Status,
    StatusReply,
    Through,
    Transaction,
    Validated,
    Values,
    Version,
    Write,
)

Result = TypeVar("Result")
FIRST_WAIT_S = 0.0005
LAST_WAIT_S = 0.2
# Attempts that begin again at once; later ones wait.
IMMEDIATE = 3


class Client:
    """A client of a cluster. Each of the addresses suffices: a server describes the whole cluster.

    `request_s`: time limit of a request, in seconds. `attempts` and `transact_s`: how often, and
    for how many seconds, a transaction is tried.
    """

    def __init__(
        self,
        addresses: Sequence[tuple[str, int]],
        *,
        secret: bytes | None = None,
        request_s: float = 10,
        attempts: int = 100,
        transact_s: float = 120,
    ):
        self.request_s, self.attempts, self.transact_s = request_s, attempts, transact_s
        self.cluster = _discover(addresses, secret, request_s)
        self._links = {server: self._link(server, secret) for server, _ in self.cluster.servers}
        self._maker = random.randrange(len(self._links))

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Ends its connections."""
        for link in self._links.values():
            link.close()

    def begin(self) -> "Tranx":
        """A transaction, which costs nothing until it reads."""
        return Tranx(self)

    def transact(self, body: Callable[["Tranx"], Result]) -> Result:
        """Calls `body` with a transaction and commits that, again and again until it is committed.

        If `body` raises an error, nothing is written; but what it has read is validated first: if
        that was not so at one instant, `body` is called again. Errors of servers that do not answer
        are raised at once.
        """
        retry, brought, kept = _Retry(self), {}, None
        while True:
            tranx = Tranx(self, brought, retry.waited_s if retry.attempts else None, kept)
            error, result = None, None
            try:
                result = body(tranx)
            except (UnavailableError, UnknownError):
                raise
            except Exception as raised:
                error = raised
                tranx.discard_writes()
            refusal = self._commit(tranx, retry)
            if refusal is None:
                if error is not None:
                    raise error
                return result
            retry.refused(refusal)
            brought, kept = _brought(refusal), _kept(refusal)

    def get(self, key: bytes) -> bytes | None:
        """Reads the value of a key: a transaction of one read."""
        return self.transact(lambda tranx: tranx.get(key))

    def put(self, key: bytes, value: bytes) -> None:
        """Lets a key hold a value: a transaction of one write."""
        self.transact(lambda tranx: tranx.put(key, value))

    def delete(self, key: bytes) -> None:
        """Deletes a key: a transaction of one write."""
        self.transact(lambda tranx: tranx.delete(key))

    def snapshot(self) -> "SnapshotView":
        """All servers as they were at one moment between the call and its return."""
        retry = _Retry(self)
        while True:
            self._maker = (self._maker + 1) % len(self._links)
            reply = self.ask(list(self._links)[self._maker], Snapshot(), SnapshotReply)
            if isinstance(reply.snapshot, Made):
                return SnapshotView(self, reply.snapshot.epoch)
            retry.refused(reply.snapshot.refusal)

    def read(self, body: Callable[["SnapshotView"], Result]) -> Result:
        """Calls `body` with a snapshot, and with another one when a server does not keep the first
        any more."""
        retry = _Retry(self)
        while True:
            try:
                return body(self.snapshot())
            except RefusedError as error:
                if not isinstance(error.refusal, SnapshotTooOld):
                    raise
                retry.refused(error.refusal)

    def status(self, server: int) -> StatusReply:
        """Status of a server."""
        return self.ask(server, Status(), StatusReply)

    def ask(self, server: int, ask: Any, expected: type) -> Any:
        """A server's reply, which has to be of this kind."""
        if server not in self._links:
            raise UnavailableError(f"server {server} is not of this cluster")
        reply = self._links[server].ask(ask, time.monotonic() + self.request_s)
        if not isinstance(reply, expected):
            raise UnavailableError(f"server {server}: {getattr(reply, 'why', reply)}")
        return reply

    def _commit(self, tranx: "Tranx", retry: "_Retry") -> Any:
        """Commits a transaction, the same one again as long as that is the advice: nothing, or a
        refusal by which it has to begin again."""
        while True:
            try:
                tranx.commit()
                return None
            except RefusedError as error:
                if isinstance(error.refusal, BEGIN_AGAIN):
                    return error.refusal
                retry.refused(error.refusal)
                tranx.waited_s, tranx.kept = retry.waited_s, None

    def _link(self, server: int, secret: bytes | None) -> Link:
        link = Link(addresses_of(self.cluster, server), secret)
        link.cluster, link.map, link.server = self.cluster.name, map_id(self.cluster), server
        return link


class Tranx:
    """A transaction: what it has read, and what it will write."""

    def __init__(
        self,
        client: Client,
        brought: dict[bytes, Item | None] | None = None,
        waited_s: Callable[[], float] | None = None,
        kept: Version | None = None,
    ):
        self._client = client
        # Items that came with a refusal: one counts as read once the program gets it.
        self._brought = brought or {}
        self._reads: dict[bytes, Item | None] = {}
        self._scans: list[ScanRead] = []
        self._scanned: dict[bytes, Item] = {}
        self._writes: dict[bytes, bytes | None] = {}
        self.waited_s, self.kept = waited_s, kept
        # It was sent, and is not known not to be committed.
        self._is_over = False

    def get(self, key: bytes) -> bytes | None:
        """Reads the value of a key, as this transaction sees it."""
        return self.multi_get([key])[0]

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys, in their order, with one request to each server."""
        missing: dict[int, list[bytes]] = {}
        for key in dict.fromkeys(keys):
            _check_key(key)
            if key in self._writes or key in self._reads or key in self._scanned:
                continue
            if key in self._brought:
                self._reads[key] = self._brought.pop(key)
            else:
                missing.setdefault(server_of(self._client.cluster, key), []).append(key)
        for server, wanted in missing.items():
            for some in _pieces(wanted):
                items = self._client.ask(server, Get(some), Values).items
                self._reads.update(zip(some, items, strict=True))
        return [self._seen(key) for key in keys]

    def scan(self, start: bytes = b"", end: bytes | None = None, limit: int = MAX_ITEMS - 1) -> list[tuple[bytes, bytes]]:
        """The items from `start` up to and without `end`, at most `limit`. That nothing comes in
        between is checked."""
        if not 0 < limit < MAX_ITEMS:
            raise LimitError(f"a scan of {limit} items; a transaction has at most {MAX_ITEMS}")
        keys = _range(start, end)
        if keys.is_empty():
            return []

        def look(server: int, rest: Range, count: int) -> tuple[list[tuple[bytes, Item]], bytes | None]:
            reply = self._client.ask(server, Scan(rest, count), Found)
            return reply.items, None if reply.complete else reply.items[-1][0]

        found, through = _scan(self._client.cluster, keys, limit, look)
        seen = keys if through is None else Range(keys.start, Through(through))
        self._scans.append(ScanRead(seen, [(key, item.version) for key, item in found.items()]))
        self._scanned |= found
        values = {key: item.value for key, item in found.items()}
        values |= {key: value for key, value in self._writes.items() if seen.contains(key)}
        return sorted((key, value) for key, value in values.items() if value is not None)[:limit]

    def put(self, key: bytes, value: bytes) -> None:
        """Lets a key hold a value from the commit on."""
        _check_key(key)
        if len(value) > MAX_VALUE_BYTES:
            raise LimitError(f"the value has {len(value)} bytes; the limit is {MAX_VALUE_BYTES}")
        self._writes[key] = value

    def delete(self, key: bytes) -> None:
        """Deletes a key at the commit."""
        _check_key(key)
        self._writes[key] = None

    def discard_writes(self) -> None:
        """Drops the writes: a commit only validates the reads."""
        self._writes.clear()

    def commit(self) -> Version | None:
        """Commits it: the version of what it wrote, if it wrote. `RefusedError`: it is not
        committed. `UnknownError`: it may be. Only after a refusal may it be committed again: that
        is a new request, and would be carried out."""
        if self._is_over:
            raise EndedError("the transaction was committed already, or may be")
        transaction = Transaction(
            [Read(key, item and item.version) for key, item in sorted(self._reads.items())],
            self._scans,
            [Write(key, value) for key, value in sorted(self._writes.items())],
        )
        _check_size(transaction)
        if not (self._reads or self._scans or self._writes):
            return None
        ask = Commit(transaction)
        if self.waited_s is not None:
            waited_ms = min(int(self.waited_s() * 1000), (1 << 32) - 1)
            ask = CommitAgain(transaction, Again(waited_ms, True, self.kept))
        self._is_over = True
        match self._client.ask(self._coordinator(), ask, CommitReply).outcome:
            case Committed(version):
                return version
            case Validated():
                return None
            case Refused(refusal):
                self._is_over = False
                raise RefusedError(refusal)
        raise UnknownError("the server does not know what became of it")

    def _coordinator(self) -> int:
        """The server that holds most of the writes, and then of the reads."""
        cluster = self._client.cluster
        weights = {server: (0, 0) for server, _ in cluster.servers}
        for keys, (of_writes, of_reads) in ((self._writes, (1, 0)), (self._reads, (0, 1)), (self._scanned, (0, 1))):
            for key in keys:
                server = server_of(cluster, key)
                writes, reads = weights[server]
                weights[server] = writes + of_writes, reads + of_reads
        return max(weights, key=weights.get)

    def _seen(self, key: bytes) -> bytes | None:
        if key in self._writes:
            return self._writes[key]
        item = self._reads[key] if key in self._reads else self._scanned.get(key)
        return item and item.value


class SnapshotView:
    """The whole cluster at one moment."""

    def __init__(self, client: Client, epoch: int):
        self._client = client
        self.epoch = epoch

    def get(self, key: bytes) -> bytes | None:
        """Reads the value that a key held."""
        return self.multi_get([key])[0]

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Reads the values that keys held, in their order."""
        by_server: dict[int, list[bytes]] = {}
        for key in dict.fromkeys(keys):
            _check_key(key)
            by_server.setdefault(server_of(self._client.cluster, key), []).append(key)
        held: dict[bytes, Item | None] = {}
        for server, wanted in by_server.items():
            for some in _pieces(wanted):
                items = self._ask(server, GetAt(self.epoch, some), Values).items
                held.update(zip(some, items, strict=True))
        return [held[key] and held[key].value for key in keys]

    def scan(self, start: bytes = b"", end: bytes | None = None, limit: int | None = None) -> list[tuple[bytes, bytes]]:
        """The items from `start` up to and without `end`, all of them or at most `limit`."""
        keys = _range(start, end)
        if keys.is_empty():
            return []

        def look(server: int, rest: Range, count: int) -> tuple[list[tuple[bytes, Item]], bytes | None]:
            reply = self._ask(server, ScanAt(self.epoch, rest, count), FoundAt)
            return reply.items, reply.through

        found, _ = _scan(self._client.cluster, keys, limit, look)
        return [(key, item.value) for key, item in found.items()]

    def _ask(self, server: int, ask: Any, expected: type) -> Any:
        reply = self._client.ask(server, ask, (expected, SnapshotReply))
        if isinstance(reply, SnapshotReply):
            raise RefusedError(reply.snapshot.refusal)
        return reply


class _Retry:
    """The attempts at one transaction, or at one snapshot."""

    def __init__(self, client: Client):
        self._client = client
        self._since = time.monotonic()
        self._wait_s = FIRST_WAIT_S
        self.attempts = 0

    def waited_s(self) -> float:
        """Seconds since the first attempt was begun."""
        return time.monotonic() - self._since

    def refused(self, refusal: Any) -> None:
        """One more was refused: waits as long as it should before the next one, or raises that
        there is none."""
        self.attempts += 1
        wait_s = 0.0
        if not isinstance(refusal, BEGIN_AGAIN) or self.attempts > IMMEDIATE and _kept(refusal) is None:
            wait_s = random.uniform(self._wait_s / 2, self._wait_s)
            self._wait_s = min(2 * self._wait_s, LAST_WAIT_S)
        is_late = self.waited_s() + wait_s >= self._client.transact_s
        if isinstance(refusal, GIVE_UP) or self.attempts >= self._client.attempts or is_late:
            raise RefusedError(refusal, self.attempts)
        time.sleep(wait_s)


def _discover(addresses: Sequence[tuple[str, int]], secret: bytes | None, limit_s: float) -> Cluster:
    """Reads the cluster's description from the first address that answers. Each has its share of
    the time."""
    error = UnavailableError("no address was given")
    until = time.monotonic() + limit_s
    for at, address in enumerate(addresses):
        link = Link([address], secret)
        now = time.monotonic()
        try:
            return link.discover(now + (until - now) / (len(addresses) - at))
        except UnavailableError as failed:
            error = failed
        finally:
            link.close()
    raise error


def _scan(cluster: Cluster, keys: Range, limit: int | None, look: Callable) -> tuple[dict[bytes, Item], bytes | None]:
    """Requests a range from all of its servers, round after round, until there is enough or no
    more. Returns the items, in order, and the last key that all of them were looked at for, if that
    was not the whole range."""
    found: dict[bytes, Item] = {}
    while True:
        left = None if limit is None else limit - len(found)
        items, through = {}, None
        for server in servers_of(cluster, keys):
            some, last = look(server, keys, min(left or MAX_ITEMS, MAX_ITEMS))
            items.update(some)
            through = last if through is None else through if last is None else min(through, last)
        in_order = sorted(key for key in items if through is None or key <= through)
        if left is not None and len(in_order) > left:
            in_order, through = in_order[:left], in_order[left - 1]
        found |= {key: items[key] for key in in_order}
        if through is None or limit is not None and len(found) >= limit:
            return found, through
        start = _successor(through)
        keys = Range(start or b"", keys.end)
        if start is None or keys.is_empty():
            return found, None


def _successor(key: bytes) -> bytes | None:
    """The smallest key after this one, if there is one: no key is longer than the longest."""
    if len(key) < MAX_KEY_BYTES:
        return key + b"\0"
    shorter = key.rstrip(b"\xff")
    return shorter[:-1] + bytes([shorter[-1] + 1]) if shorter else None


def _range(start: bytes, end: bytes | None) -> Range:
    _check_key(start)
    if end is not None:
        _check_key(end)
    return Range(start, None if end is None else Before(end))


def _pieces(keys: list[bytes]) -> list[list[bytes]]:
    return [keys[at : at + MAX_ITEMS] for at in range(0, len(keys), MAX_ITEMS)]


def _check_key(key: bytes) -> None:
    if len(key) > MAX_KEY_BYTES:
        raise LimitError(f"the key has {len(key)} bytes; the limit is {MAX_KEY_BYTES}")


def _check_size(transaction: Transaction) -> None:
    scanned = [key for scan in transaction.scans for key, _ in scan.found]
    items = len(transaction.reads) + len(transaction.scans) + len(transaction.writes) + len(scanned)
    if items > MAX_ITEMS:
        raise LimitError(f"the transaction has {items} reads, writes, scans and scanned keys; the limit is {MAX_ITEMS}")
    size = sum(len(read.key) for read in transaction.reads) + sum(map(len, scanned))
    size += sum(len(scan.range.start) + len(scan.range.end.key if scan.range.end else b"") for scan in transaction.scans)
    size += sum(len(write.key) + len(write.value or b"") for write in transaction.writes)
    if size > MAX_TRANSACTION_BYTES:
        raise LimitError(f"the transaction has {size} bytes; the limit is {MAX_TRANSACTION_BYTES}")


def _brought(refusal: Any) -> dict[bytes, Item | None]:
    return dict(refusal.current) if isinstance(refusal, Stale) else {}


def _kept(refusal: Any) -> Version | None:
    return refusal.kept if isinstance(refusal, Stale) else None
