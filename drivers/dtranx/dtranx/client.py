"""The client: transactions, and snapshots. One thread at a time may use a client."""

import contextlib
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from .cluster import addresses_of, configured, extended, map_id
from .codec import Unreadable
from .connection import Link
from .errors import EndedError, LimitError, NotWelcomeError, RefusedError, UnavailableError, UnknownError
from .limits import check_key, check_size, in_requests, key_range
from .map import KeyMap, successor
from .messages import (
    BEGIN_AGAIN,
    GIVE_UP,
    MAP_KEY,
    MAX_HINTS,
    MAX_ITEMS,
    MAX_VALUE_BYTES,
    Again,
    Cluster,
    Commit,
    CommitAgain,
    Committed,
    CommitReply,
    Found,
    Get,
    GetAt,
    Item,
    Made,
    NotHere,
    NotHereReply,
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
from .search import Elsewhere, find, scan
from .snapshot import SnapshotView

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
        self._secret = secret
        self.cluster = _discover(addresses, secret, request_s)
        self._links = {server: self._link(server) for server, _ in self.cluster.servers}
        self._maker = random.randrange(len(self._links))
        # Where keys are, as far as the client has heard.
        self.map = KeyMap(self.cluster)
        # How often a server turned out to have another store: what was read before is of no use.
        self.generation = 0

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
            try:
                refusal = self._commit(tranx, retry)
            except UnknownError as unknown:
                if error is None:
                    raise
                # Nothing was to be written: only the validation was not answered.
                why = f"it has not answered whether what the transaction read is so: {unknown}"
                raise UnavailableError(why) from error
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

    def snapshot(self) -> SnapshotView:
        """All servers as they were at one moment between the call and its return."""
        retry = _Retry(self)
        while True:
            reply = self.ask(self._next_maker(), Snapshot(), SnapshotReply)
            if isinstance(reply.snapshot, Made):
                return SnapshotView(self, reply.snapshot.epoch)
            retry.refused(reply.snapshot.refusal)

    def _next_maker(self) -> int:
        """The server that makes the next snapshot. One that joins the cluster is none before it has
        welcomed the client."""
        makers = self._holders()
        self._maker = (self._maker + 1) % len(makers)
        return makers[self._maker]

    def _holders(self) -> list[int]:
        """The servers that may hold a range, or may have held one: all but those that have none by
        the configuration and have not welcomed the client. The maps of others say what such a one
        holds."""
        holders = configured(self.cluster)
        return [server for server, link in list(self._links.items()) if server in holders or self._has_met(link)]

    @staticmethod
    def _has_met(link: Link) -> bool:
        """Whether the server welcomes the client, or has done so. It is called once if not."""
        if link.welcome is None:
            with contextlib.suppress(UnavailableError, NotWelcomeError):
                link.connect(time.monotonic())
        return link.welcome is not None

    def read(self, body: Callable[[SnapshotView], Result]) -> Result:
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
        try:
            reply = self._links[server].ask(ask, time.monotonic() + self.request_s)
        except UnavailableError as error:
            error.server = server
            raise
        if isinstance(reply, NotHereReply):
            raise Elsewhere(server, reply.moved)
        if not isinstance(reply, expected):
            raise UnavailableError(f"server {server}: {getattr(reply, 'why', reply)}")
        return reply

    def ask_at(self, server: int, ask: GetAt | ScanAt, expected: type) -> Any:
        """A server's reply to a read as of a snapshot."""
        reply = self.ask(server, ask, (expected, SnapshotReply))
        if isinstance(reply, SnapshotReply):
            raise RefusedError(reply.snapshot.refusal)
        return reply

    def maps(self, epoch: int | None = None) -> KeyMap:
        """The maps of all servers as one: of now, or as of a snapshot."""
        known = KeyMap(self.cluster)
        asked, servers = set(), set(self._holders())
        while servers:
            for server in servers:
                self._learn_map(known, server, epoch)
            asked |= servers
            # One that was left out may hold what the others say that it does, or have given it on.
            servers = {server for _, server in known.parts(Range(b"", None))} - asked
        return known

    def maps_of_others(self, silent: int) -> KeyMap:
        """The maps, as one, of the servers that answer, but for one that does not."""
        known = KeyMap(self.cluster)
        for server in set(self._holders()) - {silent}:
            with contextlib.suppress(UnavailableError):
                self._learn_map(known, server, None)
        return known

    def _learn_map(self, known: KeyMap, server: int, epoch: int | None) -> None:
        if epoch is None:
            reply = self.ask(server, Get([MAP_KEY]), Values)
        else:
            reply = self.ask_at(server, GetAt(epoch, [MAP_KEY]), Values)
        for item in reply.items:
            if item is not None:
                try:
                    known.learn_stored(item.value)
                except Unreadable as error:
                    raise UnavailableError(f"server {server}: its map: {error}") from None

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

    def _link(self, server: int) -> Link:
        link = Link(addresses_of(self.cluster, server), self._secret)
        link.cluster, link.map, link.server = self.cluster.name, map_id(self.cluster), server
        link.on_other_store = self._forget
        link.on_described = self._learn_servers
        return link

    def _learn_servers(self, described: Cluster) -> None:
        """Takes over servers that have joined the cluster."""
        self.cluster = extended(self.cluster, described)
        for server, _ in self.cluster.servers:
            if server not in self._links:
                self._links[server] = self._link(server)

    def _forget(self) -> None:
        """A server has another store: the cluster was made anew, and its ranges have not moved."""
        self.generation += 1
        self.map = KeyMap(self.cluster)


class Tranx:
    """A transaction: what it has read, and what it will write."""

    def __init__(
        self,
        client: Client,
        brought: dict[bytes, Item | None] | None = None,
        waited_s: Callable[[], float] | None = None,
        kept: Version | None = None,
    ):
        self._client, self._generation = client, client.generation
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
        for key in keys:
            check_key(key)
        find(self._client, lambda key_map: self._fetch(key_map, keys))
        return [self._seen(key) for key in keys]

    def _fetch(self, key_map: KeyMap, keys: Sequence[bytes]) -> None:
        """Reads those of the keys that it has not seen."""
        missing: dict[int, list[bytes]] = {}
        for key in dict.fromkeys(keys):
            if key in self._writes or key in self._reads or key in self._scanned:
                continue
            if key in self._brought:
                self._reads[key] = self._brought.pop(key)
            else:
                missing.setdefault(key_map.server_of(key), []).append(key)
        for server, wanted in missing.items():
            for some in in_requests(wanted):
                items = self._client.ask(server, Get(some), Values).items
                self._reads.update(zip(some, items, strict=True))

    def scan(self, start: bytes = b"", end: bytes | None = None, limit: int | None = None) -> list[tuple[bytes, bytes]]:
        """The items from `start` up to and without `end`, as this transaction sees them: all of
        them, or, with `limit`, that many; fewer are all. That nothing comes in between is checked.
        `LimitError`: there are more than a transaction may have."""
        if limit is not None and not 0 < limit < MAX_ITEMS:
            raise LimitError(f"a scan of {limit} items; a transaction has at most {MAX_ITEMS}")
        rest = key_range(start, end)
        if rest.is_empty():
            return []
        seen, found, values = rest, {}, {}
        while not rest.is_empty():
            room = MAX_ITEMS - len(found)
            # What this transaction has deleted is found, too, and none of its items.
            deleted = sum(value is None and rest.contains(key) for key, value in self._writes.items())
            some, through = self._look(rest, room if limit is None else min(room, limit - len(values) + deleted))
            found |= some
            if len(found) >= MAX_ITEMS:
                raise LimitError(f"a scan of {len(found)} items or more; a transaction has at most {MAX_ITEMS}")
            seen = Range(start, rest.end if through is None else Through(through))
            values |= self._overlaid(Range(rest.start, seen.end), some)
            behind = None if through is None else successor(through)
            if behind is None or limit is not None and len(values) >= limit:
                break
            rest = Range(behind, rest.end)
        self._scans.append(ScanRead(seen, [(key, item.version) for key, item in found.items()]))
        self._scanned |= found
        return sorted(values.items())[:limit]

    def _look(self, keys: Range, limit: int) -> tuple[dict[bytes, Item], bytes | None]:
        """So many items of a range, and the last key that was looked at, if there may be more."""

        def look(server: int, part: Range, count: int) -> tuple[list[tuple[bytes, Item]], bytes | None]:
            reply = self._client.ask(server, Scan(part, count), Found)
            return reply.items, None if reply.complete else reply.items[-1][0]

        return scan(lambda once: find(self._client, once), keys, limit, look)

    def _overlaid(self, keys: Range, found: dict[bytes, Item]) -> dict[bytes, bytes]:
        """What was found in a range, with what this transaction writes there."""
        values = {key: item.value for key, item in found.items()}
        values |= {key: value for key, value in self._writes.items() if keys.contains(key)}
        return {key: value for key, value in values.items() if value is not None}

    def put(self, key: bytes, value: bytes) -> None:
        """Lets a key hold a value from the commit on."""
        check_key(key)
        if len(value) > MAX_VALUE_BYTES:
            raise LimitError(f"the value has {len(value)} bytes; the limit is {MAX_VALUE_BYTES}")
        self._writes[key] = value

    def delete(self, key: bytes) -> None:
        """Deletes a key at the commit."""
        check_key(key)
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
        check_size(transaction)
        if not (self._reads or self._scans or self._writes):
            return None
        if (self._reads or self._scans) and self._generation != self._client.generation:
            raise RefusedError(Stale([], None))
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
                if isinstance(refusal, NotHere):
                    for moved in refusal.moved[:MAX_HINTS]:
                        self._client.map.learn(moved)
                raise RefusedError(refusal)
        raise UnknownError("the server does not know what became of it")

    def _coordinator(self) -> int:
        """The server that holds most of the writes, and then of the reads."""
        weights = {server: (0, 0) for server, _ in self._client.cluster.servers}
        for keys, (of_writes, of_reads) in ((self._writes, (1, 0)), (self._reads, (0, 1)), (self._scanned, (0, 1))):
            for key in keys:
                server = self._client.map.server_of(key)
                writes, reads = weights.get(server, (0, 0))
                weights[server] = writes + of_writes, reads + of_reads
        return max(weights, key=weights.get)

    def _seen(self, key: bytes) -> bytes | None:
        if key in self._writes:
            return self._writes[key]
        item = self._reads[key] if key in self._reads else self._scanned.get(key)
        return item and item.value


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


def _brought(refusal: Any) -> dict[bytes, Item | None]:
    return dict(refusal.current) if isinstance(refusal, Stale) else {}


def _kept(refusal: Any) -> Version | None:
    return refusal.kept if isinstance(refusal, Stale) else None
