"""What transactions and snapshots do, for one client or two."""

import unittest

from dtranx import LimitError, RefusedError
from dtranx.messages import MAX_ITEMS, Stale

from .servers import Servers

# Number of keys in one transaction.
PART = 600


class Transactions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = cls.enterClassContext(Servers())

    def setUp(self):
        self.client = self.enterContext(self.servers.client())
        self.other = self.enterContext(self.servers.client())
        self.addCleanup(self._delete_all)

    def _delete_all(self):
        keys = [key for key, _ in self.client.snapshot().scan()]
        for at in range(0, len(keys), PART):
            self.client.transact(lambda tranx, at=at: [tranx.delete(key) for key in keys[at : at + PART]])

    def test_what_is_written_is_read_by_others_and_by_the_command(self):
        def write(tranx):
            for number in range(9):
                tranx.put(b"key %d" % number, b"value %d" % number)
            tranx.delete(b"key 4")
            self.assertEqual(tranx.get(b"key 3"), b"value 3")
            self.assertIsNone(tranx.get(b"key 4"))

        self.client.transact(write)
        held = [None if number == 4 else b"value %d" % number for number in range(9)]
        self.assertEqual(self.other.transact(lambda tranx: tranx.multi_get([b"key %d" % number for number in range(9)])), held)
        self.assertEqual(self.servers.command("get", "key 8").stdout, "value 8\n")
        self.assertEqual(self.servers.command("get", "key 4").returncode, 1)

    def test_what_the_command_writes_is_read(self):
        self.assertEqual(self.servers.command("txn", "put left 1", "put right 2").returncode, 0)
        self.assertEqual(self.client.transact(lambda tranx: tranx.multi_get([b"right", b"left"])), [b"2", b"1"])

    def test_a_stale_read_is_refused_with_what_is_there_now(self):
        self.client.put(b"a", b"1")
        tranx = self.client.begin()
        self.assertEqual(tranx.get(b"a"), b"1")
        self.other.put(b"a", b"2")
        tranx.put(b"b", b"1")
        with self.assertRaises(RefusedError) as refused:
            tranx.commit()
        self.assertIsInstance(refused.exception.refusal, Stale)
        [(key, item)] = refused.exception.refusal.current
        self.assertEqual((key, item.value), (b"a", b"2"))
        self.assertIsNone(self.client.get(b"b"))

    def test_transact_begins_again_and_does_not_lose_an_update(self):
        self.client.put(b"counter", b"1")
        seen = []

        def increment(tranx):
            count = int(tranx.get(b"counter"))
            seen.append(count)
            if len(seen) == 1:
                self.other.put(b"counter", b"10")
            tranx.put(b"counter", b"%d" % (count + 1))

        self.client.transact(increment)
        self.assertEqual((seen, self.client.get(b"counter")), ([1, 10], b"11"))

    def test_reads_of_a_transaction_that_only_reads_are_checked(self):
        keys = [b"%d" % number for number in range(8)]

        def write(value: bytes) -> None:
            self.other.transact(lambda tranx: [tranx.put(key, value) for key in keys])
            # The writes of a commit reach other servers a moment after its answer; a transaction
            # that reads them waits for them.
            self.assertEqual(self.other.transact(lambda tranx: tranx.multi_get(keys)), [value] * 8)

        write(b"old")
        tranx = self.client.begin()
        first = tranx.get(b"0")
        write(b"new")
        second = tranx.get(b"1")
        self.assertEqual((first, second), (b"old", b"new"))
        with self.assertRaises(RefusedError):
            tranx.commit()

    def test_a_reason_to_give_up_is_checked_before_it_is_believed(self):
        self.client.put(b"balance", b"0")
        calls = []

        def withdraw(tranx):
            calls.append(int(tranx.get(b"balance")))
            if len(calls) == 1:
                self.other.put(b"balance", b"7")
            if calls[-1] == 0:
                raise RuntimeError("nothing is left")
            tranx.put(b"balance", b"0")

        self.client.transact(withdraw)
        self.assertEqual((calls, self.client.get(b"balance")), ([0, 7], b"0"))

    def test_what_comes_into_a_scanned_range_refuses(self):
        keys = [b"s%d" % number for number in range(5)]
        self.client.transact(lambda tranx: [tranx.put(key, b"") for key in keys])
        self.assertEqual([key for key, _ in self.client.transact(lambda tranx: tranx.scan(b"s", b"t"))], keys)
        tranx = self.client.begin()
        self.assertEqual([key for key, _ in tranx.scan(b"s", b"t")], keys)
        tranx.put(b"sum", b"5")
        self.other.put(b"s9", b"")
        with self.assertRaises(RefusedError):
            tranx.commit()
        # A scan that ended at its limit has not seen what is behind it.
        tranx = self.client.begin()
        self.assertEqual([key for key, _ in tranx.scan(b"s", b"t", 3)], [b"s0", b"s1", b"s2"])
        self.other.put(b"s8", b"")
        tranx.put(b"sum", b"3")
        tranx.commit()
        self.assertEqual(self.client.get(b"sum"), b"3")

    def test_a_scan_goes_on_behind_what_the_transaction_has_deleted(self):
        keys = [b"%03d" % number for number in range(200)]
        self.client.transact(lambda tranx: [tranx.put(key, b"") for key in keys])
        # Every server has its writes from now on.
        self.client.transact(lambda tranx: tranx.multi_get(keys))
        tranx = self.client.begin()
        for key, _ in tranx.scan(limit=100):
            tranx.delete(key)
        self.assertEqual([key for key, _ in tranx.scan(limit=100)], keys[100:])
        self.assertEqual([key for key, _ in tranx.scan(limit=10)], keys[100:110])
        tranx.put(b"0", b"own")
        self.assertEqual([key for key, _ in tranx.scan(limit=3)], [b"0", *keys[100:102]])
        tranx.commit()
        # One that came in between refuses, also where only deleted ones were found.
        tranx = self.client.begin()
        for key in keys[100:150]:
            tranx.delete(key)
        self.assertEqual([key for key, _ in tranx.scan(b"1", limit=1)], keys[150:151])
        self.other.put(b"1005", b"")
        with self.assertRaises(RefusedError):
            tranx.commit()

    def test_a_scan_without_a_limit_is_whole_or_an_error(self):
        for part in range(0, MAX_ITEMS + 1, PART):
            some = range(part, min(part + PART, MAX_ITEMS + 1))
            self.client.transact(lambda tranx, some=some: [tranx.put(b"%05d" % at, b"") for at in some])
        self.assertEqual(len(self.client.transact(lambda tranx: tranx.scan(b"00002"))), MAX_ITEMS - 1)
        with self.assertRaises(LimitError):
            self.client.transact(lambda tranx: tranx.scan())

    def test_a_snapshot_is_of_one_moment_however_long_it_is_read(self):
        # More than each of the three servers answers at once.
        many = 6 * PART
        for part in range(0, many, PART):
            self.client.transact(lambda tranx, part=part: [tranx.put(b"%05d" % at, b"old") for at in range(part, part + PART)])
        snapshot = self.other.snapshot()
        self.client.transact(lambda tranx: [tranx.put(b"%05d" % at, b"new") for at in range(0, many, 100)])
        self.client.delete(b"00001")
        self.assertEqual(snapshot.scan(), [(b"%05d" % at, b"old") for at in range(many)])
        self.assertEqual(snapshot.multi_get([b"00001", b"nothing", b"00100"]), [b"old", None, b"old"])
        self.assertEqual(snapshot.scan(b"00500", b"00600", 3), [(b"%05d" % at, b"old") for at in (500, 501, 502)])
        later = dict(self.other.snapshot().scan())
        self.assertEqual((len(later), later[b"00100"], later[b"00002"]), (many - 1, b"new", b"old"))

    def test_limits_are_refused_before_anything_is_sent(self):
        tranx = self.client.begin()
        for mistake in (lambda: tranx.get(b"k" * 4097), lambda: tranx.put(b"k", b"v" * ((1 << 20) + 1)), lambda: tranx.scan(limit=0)):
            with self.assertRaises(LimitError):
                mistake()
        for at in range(MAX_ITEMS + 1):
            tranx.put(b"%d" % at, b"")
        with self.assertRaises(LimitError):
            tranx.commit()
        # What bounds a range counts, too.
        tranx = self.client.begin()
        for at in range(8):
            tranx.put(b"%d" % at, b"v" * ((1 << 20) - 100))
        tranx.scan(b"\xff" * 4096)
        with self.assertRaises(LimitError):
            tranx.commit()
        # The longest key and the longest value.
        self.client.put(b"k" * 4096, b"v" * (1 << 20))
        self.assertEqual(len(self.client.get(b"k" * 4096)), 1 << 20)

    def test_status_says_what_the_server_is(self):
        statuses = [self.client.status(server) for server in (1, 2, 3)]
        self.assertEqual([status.server for status in statuses], [1, 2, 3])
        self.assertEqual(statuses[0].peers, [2, 3])
        self.assertEqual({queue.name for queue in statuses[0].queues} & {"entry", "peers"}, {"entry", "peers"})


if __name__ == "__main__":
    unittest.main()
