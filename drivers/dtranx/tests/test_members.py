"""All members of a group are replaced, one after the other, while a client stays connected."""

import re
import unittest

from dtranx import UnknownError

from .servers import Group


class Members(unittest.TestCase):
    def setUp(self):
        self.group = self.enterContext(Group())

    def test_a_client_that_stays_connected_goes_on_with_the_new_members(self):
        client = self.enterContext(self.group.client(request_s=20))
        client.put(b"key", b"0")
        leader = self._leader()
        # The client stays connected to the leader, which goes last, and cannot say who is left.
        for number, at in enumerate([at for at in range(3) if at != leader] + [leader]):
            self.group.join()
            self._put(client, b"added %d" % number)
            if at == leader:
                self.group.kill(at)
            self.group.remove(at)
            self._put(client, b"removed %d" % number)
            self.assertEqual(client.get(b"key"), b"removed %d" % number)

    def _leader(self) -> int:
        """The place of the member that leads."""
        status = self.group.command("status").stdout
        return int(re.search(r"member (\d+) at \S+: leads", status)[1]) - 1

    def _put(self, client, value: bytes) -> None:
        """Writes it, whatever becomes of the leader meanwhile."""
        while True:
            try:
                return client.put(b"key", value)
            except UnknownError:
                continue


if __name__ == "__main__":
    unittest.main()
