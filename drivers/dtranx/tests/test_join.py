"""A server joins a cluster while clients work, which hear of it without a restart."""

import unittest

from dtranx import Client, UnavailableError
from dtranx.cluster import extended
from dtranx.messages import V4, Cluster, Ranges

from .servers import Servers

KEYS = [letter.encode() + b"-key" for letter in "abcdefghijklmnopqrstuvwxyz"]
# Time limit of one operation, in seconds.
LIMIT_S = 60


def described(ids: list[int], port: int = 7000, name: str = "bank") -> Cluster:
    """A cluster of these servers, the first two of which hold the keys."""
    servers = [(number, V4(b"\x7f\0\0\1", port + number)) for number in ids]
    return Cluster(name, servers, Ranges([(b"", 1), (b"h", 2)]))


class Description(unittest.TestCase):
    def test_servers_that_were_not_known_are_taken_over_and_addresses_kept(self):
        known = described([1, 2], port=1)
        for other in (described([2, 1]), described([1]), described([1, 2, 3], name="other")):
            self.assertEqual(extended(known, other), known)
        longer = extended(extended(known, described([2, 1, 5])), described([1, 2, 3]))
        self.assertEqual([(server, address.port) for server, address in longer.servers], [(1, 2), (2, 3), (5, 7005), (3, 7003)])


class Join(unittest.TestCase):
    def setUp(self):
        self.servers = self.enterContext(Servers(firsts=["", "h"]))

    def test_a_running_client_follows_ranges_to_a_server_that_joins(self):
        client, writer = (self.enterContext(self.servers.client()) for _ in range(2))
        client.transact(lambda tranx: [tranx.put(key, b"old") for key in KEYS])
        joiner = self.servers.add()
        self.assertIn("is new", self._refusal(joiner))
        for at in range(joiner):
            self.servers.kill(at)
            self.servers.start(at)
            # The client has heard of the new server, which makes no snapshot of the cluster yet.
            writer.put(b"a-key", b"%d" % at)
            self.assertEqual(len(client.snapshot().scan()), len(KEYS))
        self._wait_for(joiner)
        self.assertEqual([server for server, _ in client.cluster.servers], [1, 2, 3])
        before = client.snapshot()
        moved = self.servers.command("move", "--from", "e", "--until", "k", "--to", "3")
        self.assertEqual(moved.returncode, 0, moved.stderr)
        writer.put(b"f-key", b"new")
        expected = [(key, b"old") for key in KEYS]
        expected[0] = (KEYS[0], b"1")
        self.assertEqual(before.scan(), expected)
        expected[5] = (b"f-key", b"new")
        self.assertEqual(client.transact(lambda tranx: tranx.scan()), expected)
        self.assertEqual(client.map.server_of(b"f-key"), 3)
        # Each server makes snapshots, the new one too.
        for _ in range(3):
            self.assertEqual(client.snapshot().scan(), expected)

    def _refusal(self, at: int) -> str:
        """What the server says to a client."""
        with self.assertRaises(UnavailableError) as refused:
            self._client_of(at, request_s=0.2)
        return str(refused.exception)

    def _wait_for(self, at: int) -> None:
        """Waits until the server takes clients."""
        self._client_of(at, request_s=LIMIT_S).close()

    def _client_of(self, at: int, **options) -> Client:
        """A client that has the address of one server only."""
        return Client(self.servers.addresses[at : at + 1], **options)


if __name__ == "__main__":
    unittest.main()
