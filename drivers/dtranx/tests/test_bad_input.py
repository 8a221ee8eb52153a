"""What a server refuses, and that it serves others as before."""

import contextlib
import socket
import threading
import time
import unittest

from dtranx import Client, NotWelcomeError, OtherVersionError
from dtranx.cluster import map_id
from dtranx.codec import encode
from dtranx.connection import Link
from dtranx.frames import HEADER, LIMIT_BYTES, frame, preface
from dtranx.messages import (
    VERSION,
    Commit,
    CommitReply,
    Get,
    Hello,
    KeyTwice,
    MapId,
    OfClient,
    OfServer,
    Request,
    Transaction,
    Write,
)

from .servers import Servers

LIMIT_S = 20
SECRET = b"a secret of more than sixteen bytes"
NONCE = bytes(16)


class BadInput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = cls.enterClassContext(Servers())
        cls.client = cls.enterClassContext(cls.servers.client())

    def tearDown(self):
        # The server that was spoken to serves others.
        self.assertEqual(self.client.status(1).server, 1)
        self.assertNotIn("panicked", self.servers.log(0))

    def _refused(self, **named) -> str:
        link = Link(self.servers.addresses[:1])
        for name, value in named.items():
            setattr(link, name, value)
        with contextlib.closing(link), self.assertRaises(NotWelcomeError) as refused:
            link.connect(time.monotonic() + LIMIT_S)
        return str(refused.exception)

    def test_another_cluster_map_or_server_is_refused_by_name(self):
        self.assertEqual(self._refused(cluster="bang"), 'this is the cluster "bank", not "bang"')
        self.assertIn("another map of keys", self._refused(map=MapId([(1, 0), (2, 0), (3, 0)], bytes(16))))
        self.assertEqual(self._refused(server=2), "this is server 1, not 2")
        link = Link(self.servers.addresses[:1])
        link.cluster, link.map, link.server = "bank", map_id(self.client.cluster), 1
        with contextlib.closing(link):
            self.assertEqual(link.connect(time.monotonic() + LIMIT_S).server, 1)

    def test_another_version_is_refused(self):
        rest = _said(self.servers, preface(version=6))
        self.assertEqual(rest, preface(), "it says its own version, and nothing else")
        said = f"speaks version 6 .* speaks {VERSION}"
        with _answering(preface(version=6)) as address, self.assertRaisesRegex(OtherVersionError, said):
            Client([address])
        with _answering(b"HTTP/1.1 400 Bad Request\r\n") as address, self.assertRaisesRegex(OtherVersionError, "does not speak"):
            Client([address])

    def test_whoever_is_no_server_of_the_cluster_is_refused(self):
        cluster = self.client.cluster
        hello = Hello(cluster.name, map_id(cluster), 1, OfServer(9, bytes(16), False), NONCE)
        self.assertIn(b"server 9 is not one of the cluster's others", _said(self.servers, preface() + frame(encode(hello))))

    def test_a_key_over_the_limit_ends_the_connection(self):
        request = bytearray(encode(Request(1, False, Get([]))))
        # One key of 4097 bytes in the place of none.
        request[-1:] = b"\x01\x81\x20" + b"k" * 4097
        self._greeted(frame(bytes(request)), "a message cannot be understood")

    def test_damage_and_nonsense_end_the_connection(self):
        good = frame(encode(Request(1, False, Get([b"k"]))))
        self._greeted(good[:-1] + bytes([good[-1] ^ 1]), "a message was damaged on the way")
        self._greeted(HEADER.pack(LIMIT_BYTES + 1, 0), "longer than the limit")
        self._greeted(frame(b"\x01\x00\x63"), "a message cannot be understood")
        self._greeted(frame(encode(Request(1, False, Get([b"k"]))) + b"\0"), "1 bytes follow it")
        # 2^64 keys, of which none comes; an integer of eleven bytes.
        self._greeted(frame(b"\x01\x00\x00" + b"\xff" * 9 + b"\x01"), "a message cannot be understood")
        self._greeted(frame(b"\xff" * 11), "a message cannot be understood")

    def test_a_contradiction_is_refused_and_the_connection_stays(self):
        reply = self.client.ask(1, Commit(Transaction(writes=[Write(b"k", b"1"), Write(b"k", b"2")])), CommitReply)
        self.assertEqual(reply.outcome.refusal.mistake, KeyTwice(b"k", "writes"))

    def _greeted(self, said: bytes, reason: str) -> None:
        """Says something after a good greeting: the server closes the connection, and says why on
        its own error output. A server says the same words once a minute, so each is another."""
        with Servers(firsts=[""]) as servers, servers.client():
            # The client has been welcomed: the server has recovered.
            _said(servers, preface() + frame(encode(Hello("", None, None, OfClient(None), NONCE))) + said)
            self.assertEqual(servers.log(0).count("a connection is closed"), 1, servers.log(0))
            self.assertIn(reason, servers.log(0))


def _said(servers: Servers, said: bytes) -> bytes:
    """What the first server answers until it closes the connection."""
    with socket.create_connection(servers.addresses[0], LIMIT_S) as stream:
        stream.sendall(said)
        heard = bytearray()
        while some := stream.recv(4096):
            heard += some
    return bytes(heard)


class Secrets(unittest.TestCase):
    def test_a_client_and_a_server_show_each_other_that_they_know_the_secret(self):
        with Servers(SECRET) as servers:
            with servers.client(secret=SECRET) as client:
                client.put(b"k", b"v")
                self.assertEqual(client.get(b"k"), b"v")
            with self.assertRaisesRegex(NotWelcomeError, "does not know the secret"):
                servers.client(secret=SECRET + b"!")
            with self.assertRaisesRegex(NotWelcomeError, "none was given"):
                servers.client()
            self.assertEqual(servers.command("get", "k", "--secret-file", str(servers.secret_file)).stdout, "v\n")
        with Servers() as servers, self.assertRaisesRegex(NotWelcomeError, "has not shown that it knows the secret"):
            servers.client(secret=SECRET)


@contextlib.contextmanager
def _answering(said: bytes):
    """Somebody who listens, says this to the first caller, and reads what that says."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            stream, _ = listener.accept()
            with stream:
                stream.settimeout(LIMIT_S)
                stream.sendall(said)
                with contextlib.suppress(OSError):
                    while stream.recv(4096):
                        pass

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            thread.join(LIMIT_S)


if __name__ == "__main__":
    unittest.main()
