"""Where keys are: as the cluster's description says, and as ranges have moved since.

Each range has the number of its moves. Of two maps, the one with more moves of a range is right.
"""

from bisect import bisect_right

from .cluster import hash_of
from .codec import Unreadable, decode
from .messages import MAX_KEY_BYTES, MAX_PIECES, Before, ByRanges, Cluster, Hash, Moved, Piece, Range, StoredMap, Through


class KeyMap:
    """The best that is known of where all keys are."""

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        is_by_hash = isinstance(cluster.partition, Hash)
        self._hashed = cluster.partition.servers if is_by_hash else None
        self._set([] if is_by_hash else [Piece(first, server, 0) for first, server in cluster.partition.firsts])

    @property
    def is_fixed(self) -> bool:
        """Whether no range ever moves."""
        return self._hashed is not None

    def server_of(self, key: bytes) -> int:
        """The server that holds a key."""
        if self._hashed is not None:
            return self._hashed[hash_of(key) % len(self._hashed)]
        return self._pieces[self._at(key)].holder

    def parts(self, keys: Range) -> list[tuple[Range, int]]:
        """The parts of a range, in order, each with the server that holds it. Of a cluster by hash
        each server may hold keys of the whole range."""
        if self._hashed is not None:
            return [(keys, server) for server in sorted(set(self._hashed))]
        return [(part, piece.holder) for part, piece in self._parts(keys)]

    def learn(self, moved: Moved) -> bool:
        """Notes where a range is, but for parts of which as many moves are known. Returns whether
        that is news."""
        older = [part for part, piece in self._parts(moved.range) if piece.moves < moved.moves]
        for part in older:
            self._assign(part, moved.to, moved.moves)
        if len(self._pieces) > MAX_PIECES:
            # What is forgotten can be heard again.
            self._set(KeyMap(self._cluster)._pieces)
        return bool(older)

    def learn_all(self, other: "KeyMap") -> bool:
        """Notes all that another map knows. Returns whether there is news."""
        parts = other._parts(Range(b"", None))
        return any([self.learn(Moved(part, piece.holder, piece.moves)) for part, piece in parts])

    def learn_stored(self, value: bytes) -> bool:
        """Notes what a server's map says, by the value of its item. `Unreadable`: it is none."""
        stored = decode(StoredMap, value)
        firsts = [piece.first for piece in stored.pieces] if isinstance(stored, ByRanges) else []
        if firsts[:1] != [b""] or any(left >= right for left, right in zip(firsts, firsts[1:], strict=False)):
            raise Unreadable("it is no map of ranges in order")
        other = KeyMap(self._cluster)
        other._set(stored.pieces)
        return self.learn_all(other)

    def _set(self, pieces: list[Piece]) -> None:
        self._pieces, self._firsts = pieces, [piece.first for piece in pieces]

    def _at(self, key: bytes) -> int:
        return bisect_right(self._firsts, key) - 1

    def _parts(self, keys: Range) -> list[tuple[Range, Piece]]:
        if not self._pieces or keys.is_empty():
            return []
        at = self._at(keys.start)
        within = [self._pieces[at]]
        while at + len(within) < len(self._pieces) and keys.contains(self._firsts[at + len(within)]):
            within.append(self._pieces[at + len(within)])
        starts = [keys.start, *(piece.first for piece in within[1:])]
        ends = [*(Before(start) for start in starts[1:]), keys.end]
        return [(Range(start, end), piece) for start, end, piece in zip(starts, ends, within, strict=True)]

    def _assign(self, keys: Range, holder: int, moves: int) -> None:
        behind = _behind(keys)
        pieces = [piece for piece in self._pieces if piece.first < keys.start]
        pieces.append(Piece(keys.start, holder, moves))
        if behind is not None:
            rest = self._pieces[self._at(behind)]
            pieces.append(Piece(behind, rest.holder, rest.moves))
            pieces += [piece for piece in self._pieces if piece.first > behind]
        merged = pieces[:1]
        for piece in pieces[1:]:
            if (piece.holder, piece.moves) != (merged[-1].holder, merged[-1].moves):
                merged.append(piece)
        self._set(merged)


def successor(key: bytes) -> bytes | None:
    """The smallest key after this one, if there is one: no key is longer than the longest."""
    if len(key) < MAX_KEY_BYTES:
        return key + b"\0"
    shorter = key.rstrip(b"\xff")
    return shorter[:-1] + bytes([shorter[-1] + 1]) if shorter else None


def _behind(keys: Range) -> bytes | None:
    """The smallest key behind a range, if there is one."""
    match keys.end:
        case Before(end):
            return end
        case Through(last):
            return successor(last)
    return None
