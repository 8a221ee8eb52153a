"""The examples of docs/dtranx-wire.md are what this client writes and reads. A test of the server
compares them, too."""

import re
import unittest
from pathlib import Path

from dtranx.cluster import hash_of, map_id
from dtranx.codec import decode, encode
from dtranx.connection import Link
from dtranx.errors import NotWelcomeError
from dtranx.frames import Incoming, frame, preface
from dtranx.messages import (
    V4,
    Again,
    Before,
    ByRanges,
    Challenge,
    ClientName,
    ClientWelcome,
    Cluster,
    Commit,
    CommitAgain,
    CommitReply,
    Committed,
    Get,
    Hash,
    Hello,
    Item,
    Made,
    Moved,
    Moving,
    NotHereReply,
    NotLeading,
    OfClient,
    Piece,
    Proof,
    Range,
    Read,
    Refused,
    Request,
    RequestName,
    RequestOutcome,
    Response,
    Restarted,
    ScanAt,
    ScanRead,
    Snapshot,
    SnapshotReply,
    Stale,
    StoredMap,
    Through,
    Transaction,
    Values,
    Version,
    Welcome,
    Write,
)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "dtranx-wire.md"
EXAMPLE = re.compile(r"^\*\*([^\n]+)\*\*\n\n```text\n(.+?)```$", re.MULTILINE | re.DOTALL)
SECRET = b"sixteen bytes, 1"
SEEN = Version(3, 77)
HELLO = Hello("", None, None, OfClient(None), bytes([9] * 16))
CLUSTER = Cluster("bank", [(1, V4(b"\x7f\0\0\1", 7101)), (2, V4(b"\x7f\0\0\1", 7102))], Hash([1, 2]))
MEMBERS = [V4(b"\x7f\0\0\1", port) for port in (7101, 7102, 7103)]
GROUP = Cluster("bank", [(1, MEMBERS[0])], Hash([1]), [(1, MEMBERS)])
TRANSACTION = Transaction(
    [Read(b"a", SEEN), Read(b"b", None)],
    [ScanRead(Range(b"k", Through(b"k2")), [(b"k1", SEEN)])],
    [Write(b"a", b"two"), Write(b"c", None)],
)
MOVING = Moving(Range(b"k", Before(b"m")), 1, 2, 1)
MOVE = Transaction([], [ScanRead(MOVING.range, [(b"k1", SEEN)])], [Write(b"k1", b"one")], MOVING)
MAP = ByRanges([Piece(b"", 1, 0), Piece(b"k", 2, 1), Piece(b"m", 1, 0)])
REFUSAL = Stale([(b"a", Item(b"new", Version(3, 79)))], Version(2, 78))
# Messages, by the names of the examples.
MESSAGES = {
    "hello of a client that knows nothing": (Hello, HELLO),
    "welcome of a client": (Welcome, ClientWelcome(ClientName(70000, 3), 1, bytes([7] * 16), CLUSTER, 0, 1024)),
    "refusal by a member that does not lead": (Welcome, NotLeading(3, GROUP, 0)),
    "request to get two keys": (Request, Request(5, False, Get([b"a", b""]))),
    "response with two values": (Response, Response(5, Values([Item(b"one", SEEN), None]))),
    "request to commit": (Request, Request(300, False, Commit(TRANSACTION))),
    "response that it is committed": (Response, Response(300, CommitReply(Committed(Version(2, 78))))),
    "response that a read is stale": (Response, Response(300, CommitReply(Refused(REFUSAL)))),
    "request to move a range": (Request, Request(306, False, Commit(MOVE))),
    "request to commit again": (Request, Request(301, False, CommitAgain(TRANSACTION, Again(25, True, Version(2, 78))))),
    "request for a snapshot, repeated": (Request, Request(302, True, Snapshot())),
    "response with a snapshot": (Response, Response(302, SnapshotReply(Made(9)))),
    "request that asks what became of another": (
        Request,
        Request(304, False, RequestOutcome(RequestName(ClientName(70000, 3), 300), 77)),
    ),
    "response that it was not committed": (Response, Response(304, CommitReply(Refused(Restarted(2))))),
    "response that the range has moved": (Response, Response(305, NotHereReply(Moved(MOVING.range, 2, 1)))),
    "request to scan a snapshot": (Request, Request(303, False, ScanAt(9, Range(b"a", Before(b"m")), 100))),
}
CHALLENGE = "challenge to that hello, with the secret `sixteen bytes, 1`"
PROOF = "the client's answer to that challenge"
OTHERS = {
    "preface": preface(),
    "the map of a server after that move": encode(MAP, StoredMap),
    "map id of that welcome's cluster": encode(map_id(CLUSTER)),
    "hash of the key `alice`, little-endian": hash_of(b"alice").to_bytes(8, "little"),
}
# A client neither sends nor gets these.
OF_SERVERS = {"prepare, from a server", "batch, from a member that leads"}


def examples() -> dict[str, bytes]:
    """The bytes of each example, by its name."""
    lines = {name: body.splitlines() for name, body in EXAMPLE.findall(PAGE.read_text())}
    return {name: bytes.fromhex("".join(line.partition(";")[0] for line in body)) for name, body in lines.items()}


def payload(data: bytes) -> bytes:
    """That of the frame that this is."""
    incoming = Incoming()
    incoming.add(data)
    return incoming.payload()


class Document(unittest.TestCase):
    def test_each_example_is_known(self):
        self.assertEqual(set(examples()), {*MESSAGES, *OTHERS, *OF_SERVERS, CHALLENGE, PROOF})

    def test_examples_are_read_and_written(self):
        found = examples()
        for name, (hint, message) in MESSAGES.items():
            with self.subTest(name):
                self.assertEqual(decode(hint, payload(found[name])), message)
                self.assertEqual(frame(encode(message, hint)), found[name])
        for name, value in OTHERS.items():
            with self.subTest(name):
                self.assertEqual(value, found[name])

    def test_the_secret_is_proven_as_in_the_example(self):
        found = examples()
        challenge = decode(Welcome, payload(found[CHALLENGE]))
        self.assertIsInstance(challenge, Challenge)
        link = Link([("127.0.0.1", 1)], SECRET)
        self.assertEqual(frame(encode(Proof(link._prove(encode(HELLO), challenge)))), found[PROOF])
        with self.assertRaises(NotWelcomeError):
            Link([("127.0.0.1", 1)], SECRET + b"!")._prove(encode(HELLO), challenge)


if __name__ == "__main__":
    unittest.main()
