"""Snapshots: reads of the whole cluster as it was at one moment."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from .errors import RefusedError, UnavailableError
from .limits import check_key, in_requests, key_range
from .map import KeyMap
from .messages import FoundAt, GetAt, Item, Range, ScanAt, SnapshotTooOld, Values
from .search import Elsewhere, scan

Result = TypeVar("Result")


class SnapshotView:
    """The whole cluster at one moment."""

    def __init__(self, client: Any, epoch: int):
        self._client, self._generation = client, client.generation
        self.epoch = epoch
        # Where keys were at that moment, once a server was asked that did not hold them.
        self._map: KeyMap | None = None

    def get(self, key: bytes) -> bytes | None:
        """Reads the value that a key held."""
        return self.multi_get([key])[0]

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Reads the values that keys held, in their order."""
        for key in keys:
            check_key(key)
        held = self._find(lambda key_map: self._fetch(key_map, keys))
        return [held[key] and held[key].value for key in keys]

    def scan(self, start: bytes = b"", end: bytes | None = None, limit: int | None = None) -> list[tuple[bytes, bytes]]:
        """The items from `start` up to and without `end`, all of them or at most `limit`."""
        keys = key_range(start, end)
        if keys.is_empty():
            return []

        def look(server: int, part: Range, count: int) -> tuple[list[tuple[bytes, Item]], bytes | None]:
            reply = self._ask(server, ScanAt(self.epoch, part, count), FoundAt)
            return reply.items, reply.through

        found, _ = scan(self._find, keys, limit, look)
        return [(key, item.value) for key, item in found.items()]

    def _fetch(self, key_map: KeyMap, keys: Sequence[bytes]) -> dict[bytes, Item | None]:
        by_server: dict[int, list[bytes]] = {}
        for key in dict.fromkeys(keys):
            by_server.setdefault(key_map.server_of(key), []).append(key)
        held: dict[bytes, Item | None] = {}
        for server, wanted in by_server.items():
            for some in in_requests(wanted):
                items = self._ask(server, GetAt(self.epoch, some), Values).items
                held.update(zip(some, items, strict=True))
        return held

    def _ask(self, server: int, ask: GetAt | ScanAt, expected: type) -> Any:
        """A server's reply, unless it may be of another store: an epoch of that one may have the
        same number."""
        reply = self._client.ask_at(server, ask, expected)
        if self._generation != self._client.generation:
            why = "has another store since, or another server has"
            raise RefusedError(SnapshotTooOld(server, why))
        return reply

    def _find(self, once: Callable[[KeyMap], Result]) -> Result:
        """Calls `once` with a map: where keys are now, or, if a server did not hold them then,
        where they were."""
        try:
            return once(self._map or self._client.map)
        except Elsewhere:
            self._map = self._client.maps(self.epoch)
        try:
            return once(self._map)
        except Elsewhere as answer:
            why = f"server {answer.server} did not hold the keys at the snapshot's moment, and no server says that it did"
            raise UnavailableError(why) from None
