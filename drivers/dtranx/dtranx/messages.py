"""Every message of docs/dtranx-wire.md that a client sends or gets, with the names that it has
there."""

from dataclasses import dataclass, field
from typing import Annotated

from .codec import U8, U16, U32, U64, choice, counted, fixed

VERSION = 16
MAX_KEY_BYTES = 4096
MAX_VALUE_BYTES = 1 << 20
# Reads, writes, scans and scanned keys of a transaction; keys of one request.
MAX_ITEMS = 1000
MAX_TRANSACTION_BYTES = 8 << 20
# Ranges of a map.
MAX_PIECES = 4096
# Hints of one refusal.
MAX_HINTS = 64
# Key under which a server keeps its map.
MAP_KEY = b"\xff\xffdtranx.map"

Server = Annotated[int, U16]
Member = Annotated[int, U8]
Number = Annotated[int, U64]
Small = Annotated[int, U32]
Key = Annotated[bytes, counted(MAX_KEY_BYTES)]
Value = Annotated[bytes, counted(MAX_VALUE_BYTES)]
Epoch = Number
Nonce = Annotated[bytes, fixed(16)]
Id16 = Annotated[bytes, fixed(16)]


@dataclass(frozen=True)
class Version:
    """The transaction that wrote an item."""

    server: Server
    number: Number


@dataclass(frozen=True)
class Item:
    """What a key holds."""

    value: Value
    version: Version


@dataclass(frozen=True)
class ClientName:
    """Name by which a server recognises a client."""

    life: Number
    number: Number


@dataclass(frozen=True)
class Before:
    """A range ends before this key."""

    key: Key


@dataclass(frozen=True)
class Through:
    """A range ends behind this key."""

    key: Key


@dataclass(frozen=True)
class Range:
    """Keys from the first one on."""

    start: Key
    end: Annotated[object, choice(Before, Through)] | None

    def contains(self, key: bytes) -> bool:
        """Whether the key is in the range."""
        match self.end:
            case Before(end):
                return self.start <= key < end
            case Through(last):
                return self.start <= key <= last
        return self.start <= key

    def is_empty(self) -> bool:
        """Whether no key can be in the range."""
        return self.end is not None and not self.contains(self.start)


@dataclass(frozen=True)
class Moved:
    """Where a range is, as a server knows that does not hold it."""

    range: Range
    to: Server
    moves: Number


@dataclass(frozen=True)
class Moving:
    """A range that moves from one server to another."""

    range: Range
    source: Server
    to: Server
    moves: Number


@dataclass(frozen=True)
class V4:
    """An address of IPv4."""

    octets: Annotated[bytes, fixed(4)]
    port: Annotated[int, U16]


@dataclass(frozen=True)
class V6:
    """An address of IPv6."""

    octets: Annotated[bytes, fixed(16)]
    port: Annotated[int, U16]


Address = Annotated[object, choice(V4, V6)]


# The members of a group.


@dataclass(frozen=True)
class Votes:
    """It has a vote."""


@dataclass(frozen=True)
class Goes:
    """It has a vote until the change that is under way is over."""


@dataclass(frozen=True)
class Comes:
    """It has a vote once the change that is under way is over."""


@dataclass(frozen=True)
class Learns:
    """It has no vote."""


@dataclass(frozen=True)
class Place:
    """A member of a group, with the first store that it had."""

    number: Member
    store: Id16
    address: Address
    role: Annotated[object, choice(Votes, Goes, Comes, Learns)]


@dataclass(frozen=True)
class LogPlace:
    """Place of an entry in the log of a group."""

    term: Number
    index: Number


@dataclass(frozen=True)
class Told:
    """The members of a group, as one of them tells. *Given*: the greatest number of a member so
    far."""

    at: LogPlace
    is_settled: bool
    given: Member
    places: list[Place]
    stores: list[tuple[Member, Id16]]


@dataclass(frozen=True)
class Group:
    """How far the members of a group are, as the one that leads knows."""

    leads: Member
    told: Told
    committed: Number
    reached: list[tuple[Member, Number]]


# Parties and their names.


@dataclass(frozen=True)
class OfServer:
    """A server calls. One that is new may not be known to all others."""

    server: Server
    store: Id16
    is_new: bool


@dataclass(frozen=True)
class OfClient:
    """A client calls, and had this name before."""

    name: ClientName | None


@dataclass(frozen=True)
class OfMember:
    """A member of a group calls, whose store takes the place of a lost one if it says so."""

    server: Server
    member: Member
    store: Id16
    replaces: list[Id16]
    told: Told | None


@dataclass(frozen=True)
class MapId:
    """The servers of a cluster, each with how many members it has, and a digest of its map."""

    servers: list[tuple[Server, Member]]
    keys: Id16


@dataclass(frozen=True)
class Hello:
    """The first message of the calling side."""

    cluster: str
    map: MapId | None
    to: Server | None
    caller: Annotated[object, choice(OfServer, OfClient, OfMember)]
    nonce: Nonce


@dataclass(frozen=True)
class Hash:
    """Keys are spread by their hash."""

    servers: list[Server]


@dataclass(frozen=True)
class Ranges:
    """Each server holds the keys from its own first one on."""

    firsts: list[tuple[Key, Server]]


@dataclass(frozen=True)
class Cluster:
    """A cluster's description."""

    name: str
    servers: list[tuple[Server, Address]]
    partition: Annotated[object, choice(Hash, Ranges)]
    groups: list[tuple[Server, list[Address]]] = field(default_factory=list)


@dataclass(frozen=True)
class Piece:
    """A range of a map, which ends where the next one begins."""

    first: Key
    holder: Server
    moves: Number


@dataclass(frozen=True)
class ByHash:
    """The map of a cluster whose keys are spread by their hash, which is never stored."""

    partition: Annotated[object, choice(Hash, Ranges)]


@dataclass(frozen=True)
class ByRanges:
    """The map of a server, in order of the keys."""

    pieces: list[Piece]


StoredMap = Annotated[object, choice(ByHash, ByRanges)]


@dataclass(frozen=True)
class Challenge:
    """Prove that you know the secret."""

    nonce: Nonce
    proof: Annotated[bytes, fixed(32)]


@dataclass(frozen=True)
class ServerWelcome:
    """Welcome to a server."""

    store: Id16


@dataclass(frozen=True)
class ClientWelcome:
    """Welcome to a client."""

    name: ClientName
    server: Server
    store: Id16
    cluster: Cluster
    addresses_of: Number
    window: Small


@dataclass(frozen=True)
class NotWelcome:
    """The connection is closed."""

    why: str
    is_temporary: bool


@dataclass(frozen=True)
class NotLeading:
    """The connection is closed: this member of a group does not lead."""

    leads: Member | None
    cluster: Cluster
    addresses_of: Number


@dataclass(frozen=True)
class MemberWelcome:
    """Welcome to a server or member, by a member of a group."""

    member: Member
    store: Id16
    told: Told | None


@dataclass(frozen=True)
class Removed:
    """The connection is closed: the calling member was removed from its group."""

    at: Number


@dataclass(frozen=True)
class Waiting:
    """The connection is closed: a new store waits there to be added to a group."""

    cluster: str
    server: Server
    store: Id16


Welcome = Annotated[
    object,
    choice(Challenge, ServerWelcome, ClientWelcome, NotWelcome, NotLeading, MemberWelcome, Removed, Waiting),
]


@dataclass(frozen=True)
class Proof:
    """Proof that its sender knows the secret."""

    proof: Annotated[bytes, fixed(32)]


# Transactions.


@dataclass(frozen=True)
class Read:
    """A key that was read; no version: it was absent."""

    key: Key
    version: Version | None


@dataclass(frozen=True)
class ScanRead:
    """A range, and what was found in it."""

    range: Range
    found: list[tuple[Key, Version]]


@dataclass(frozen=True)
class Write:
    """A key that is written; no value: it is deleted."""

    key: Key
    value: Value | None


@dataclass(frozen=True)
class Transaction:
    """The reads and the writes."""

    reads: list[Read] = field(default_factory=list)
    scans: list[ScanRead] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    moving: Moving | None = None


@dataclass(frozen=True)
class Again:
    """Facts about the attempts before."""

    waited_ms: Small
    keeps: bool
    kept: Version | None


# Refusals.


@dataclass(frozen=True)
class KeyTooLong:
    """A mistake."""

    bytes: Number


@dataclass(frozen=True)
class ValueTooLong:
    """A mistake."""

    bytes: Number


@dataclass(frozen=True)
class TooManyItems:
    """A mistake."""

    items: Number


@dataclass(frozen=True)
class TooManyBytes:
    """A mistake."""

    bytes: Number


@dataclass(frozen=True)
class KeyTwice:
    """A mistake."""

    key: Key
    list: str


@dataclass(frozen=True)
class ScanOutOfOrder:
    """A mistake."""

    key: Key


@dataclass(frozen=True)
class Reserved:
    """A mistake."""

    key: Key


@dataclass(frozen=True)
class Move:
    """A mistake."""

    why: str


@dataclass(frozen=True)
class Map:
    """A mistake."""

    ranges: Number


@dataclass(frozen=True)
class ReadLocked:
    """A key that was read is being changed."""

    key: Key


@dataclass(frozen=True)
class Stale:
    """A read has changed; the current items, as far as the server sends them."""

    current: list[tuple[Key, Item | None]]
    kept: Version | None


@dataclass(frozen=True)
class WriteLocked:
    """A key that is written is being changed."""

    key: Key


@dataclass(frozen=True)
class LockWaitExpired:
    """Locks were not free in time."""


@dataclass(frozen=True)
class NoVote:
    """A server did not answer in time."""

    server: Server


@dataclass(frozen=True)
class Overloaded:
    """A server is at a limit."""

    limit: str


@dataclass(frozen=True)
class NotHere:
    """A server does not hold the key, whose range has moved: where that is, and others are."""

    server: Server
    key: Key
    moved: list[Moved]


@dataclass(frozen=True)
class Invalid:
    """It can never be committed."""

    mistake: Annotated[
        object,
        choice(
            KeyTooLong,
            ValueTooLong,
            TooManyItems,
            TooManyBytes,
            KeyTwice,
            ScanOutOfOrder,
            Reserved,
            Move,
            Map,
        ),
    ]


@dataclass(frozen=True)
class SnapshotInDoubt:
    """The outcome of a transaction that may belong to it is not known yet."""

    server: Server
    version: Version


@dataclass(frozen=True)
class SnapshotDisturbed:
    """It took too long."""

    attempts: Small


@dataclass(frozen=True)
class SnapshotTooOld:
    """A server does not keep it any more."""

    server: Server
    why: str


@dataclass(frozen=True)
class Restarted:
    """The server has begun a new life, and has not committed it before."""

    server: Server


@dataclass(frozen=True)
class Here:
    """The server that is to take a range holds some of it."""

    server: Server
    key: Key


@dataclass(frozen=True)
class IsMoving:
    """The range of a key is moving."""

    key: Key


@dataclass(frozen=True)
class Joining:
    """A new server takes no part before all others know it."""

    server: Server


Refusal = Annotated[
    object,
    choice(
        ReadLocked,
        Stale,
        WriteLocked,
        LockWaitExpired,
        NoVote,
        Overloaded,
        NotHere,
        Invalid,
        SnapshotInDoubt,
        SnapshotDisturbed,
        SnapshotTooOld,
        Restarted,
        Here,
        IsMoving,
        Joining,
    ),
]
BEGIN_AGAIN = (ReadLocked, Stale, NotHere, SnapshotTooOld)
GIVE_UP = (Invalid, Here)

# Requests.


@dataclass(frozen=True)
class Get:
    """Reads the items of keys."""

    keys: list[Key]


@dataclass(frozen=True)
class Scan:
    """What a range holds."""

    range: Range
    items: Small


@dataclass(frozen=True)
class Commit:
    """Commits a transaction."""

    transaction: Transaction


@dataclass(frozen=True)
class Status:
    """How the server is."""


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of all servers."""


@dataclass(frozen=True)
class GetAt:
    """Reads the items of keys as of a snapshot."""

    epoch: Epoch
    keys: list[Key]


@dataclass(frozen=True)
class ScanAt:
    """What a range held."""

    epoch: Epoch
    range: Range
    items: Small


@dataclass(frozen=True)
class CommitAgain:
    """Commits a transaction after attempts that were refused."""

    transaction: Transaction
    again: Again


@dataclass(frozen=True)
class RequestName:
    """Name of a request to commit."""

    client: ClientName
    id: Number


@dataclass(frozen=True)
class RequestOutcome:
    """Asks what became of a request that an earlier life of the server got."""

    request: RequestName
    above: Number


@dataclass(frozen=True)
class AddMember:
    """Adds a new store, which waits at this address, to a group."""

    address: Address
    store: Id16


@dataclass(frozen=True)
class RemoveMember:
    """Removes a member from a group."""

    number: Member


@dataclass(frozen=True)
class Request:
    """Request of a client."""

    id: Number
    repeated: bool
    ask: Annotated[
        object,
        choice(
            Get, Scan, Commit, Status, Snapshot, GetAt, ScanAt, CommitAgain, RequestOutcome, AddMember, RemoveMember
        ),
    ]


# Responses.


@dataclass(frozen=True)
class Committed:
    """It is durable."""

    version: Version


@dataclass(frozen=True)
class Validated:
    """All that it read was so at one instant."""

    server: Server
    life: Number
    number: Number


@dataclass(frozen=True)
class Refused:
    """It did not happen."""

    refusal: Refusal


@dataclass(frozen=True)
class Indeterminate:
    """The outcome cannot be known."""


@dataclass(frozen=True)
class Made:
    """A snapshot."""

    epoch: Epoch


@dataclass(frozen=True)
class Values:
    """What each key holds."""

    items: list[Item | None]


@dataclass(frozen=True)
class Found:
    """What a range holds."""

    items: list[tuple[Key, Item]]
    complete: bool


@dataclass(frozen=True)
class CommitReply:
    """Result of a commit, or what became of one."""

    outcome: Annotated[object, choice(Committed, Validated, Refused, Indeterminate)]


@dataclass(frozen=True)
class Stage:
    """A stage of a server."""

    name: str
    handled: Number
    batches: Number
    largest_batch: Number
    busy_ns: Number


@dataclass(frozen=True)
class Queue:
    """A queue of a server."""

    name: str
    length: Number
    longest: Number
    capacity: Number
    refused: Number
    kept_back: Number


@dataclass(frozen=True)
class StatusReply:
    """How a server is."""

    server: Server
    uptime_ms: Number
    medium: str
    log_segments: Number
    log_bytes: Number
    low_water: Number
    coordinating: Number
    participating: Number
    in_doubt: Number
    asking: Number
    locking: Number
    lock_waiting: Number
    anomalies: Number
    epoch: Epoch
    snapshots_from: Epoch
    snapshot_bytes: Number
    clients: Number
    cached_reads: Number
    committed: Number
    refused: Number
    descriptors: Number
    client_connections: Number
    most_client_connections: Number
    client_bytes: Number
    most_client_bytes: Number
    refused_clients: Number
    refused_requests: Number
    closed_strangers: Number
    closed_slow: Number
    closed_idle: Number
    closed_unread: Number
    peers: list[Server]
    stages: list[Stage]
    queues: list[Queue]
    group: Group | None


@dataclass(frozen=True)
class RefusedReply:
    """Nothing was done."""

    why: str


@dataclass(frozen=True)
class SnapshotReply:
    """A snapshot, or why there is none."""

    snapshot: Annotated[object, choice(Made, Refused)]


@dataclass(frozen=True)
class FoundAt:
    """What a range held."""

    items: list[tuple[Key, Item]]
    through: Key | None


@dataclass(frozen=True)
class NotHereReply:
    """The server does not hold what was to be read, or did not at the snapshot's moment."""

    moved: Moved


@dataclass(frozen=True)
class PlaceReply:
    """The member of this number is being added or removed, or was."""

    number: Member


@dataclass(frozen=True)
class Response:
    """Response of a server."""

    id: Number
    reply: Annotated[
        object,
        choice(
            Values, Found, CommitReply, StatusReply, RefusedReply, SnapshotReply, FoundAt, NotHereReply, PlaceReply
        ),
    ]
