"""Ranges move between servers while clients read, write, scan and look at snapshots."""

import random
import threading
import unittest
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from dtranx import Client, RefusedError, SnapshotView, Tranx, UnavailableError
from dtranx.messages import MAP_KEY, Found, Invalid, NotHere, Range, Reserved, Scan, SnapshotTooOld
from dtranx.search import Elsewhere

from .servers import Servers

# The first keys of the three servers' ranges.
FIRSTS = ["", "h", "p"]
ACCOUNTS = [letter.encode() + b"-account" for letter in "abcdefghijklmnopqrstuvwxyz"]
EACH = 100
# More than one transaction moves. They lie behind the account of "l".
FILLERS = [b"l-filler-%04d" % number for number in range(450)]
# Moves while the other clients work: the server that takes the range.
MOVES = [2, 3, 1, 3, 2, 1, 2]
# Time limit of one operation of a client, or of a move, in seconds.
LIMIT_S = 120


class Moves(unittest.TestCase):
    def setUp(self):
        self.servers = self.enterContext(Servers(firsts=FIRSTS))
        self.client = self.enterContext(self.servers.client())

    def old_client(self, **options) -> Client:
        """A client that hears of moves only when it asks for what has moved."""
        return self.enterContext(self.servers.client(**options))

    def move(self, start: str, end: str, to: int) -> str:
        """Moves a range by the command; what that says."""
        moved = self.servers.command("move", "--from", start, "--until", end, "--to", str(to))
        self.assertEqual(moved.returncode, 0, moved.stderr)
        return moved.stdout

    def _settle(self, key: bytes, value: bytes) -> None:
        """Waits until both servers have carried out the first move of the key's range: a move is
        answered before that. Asked by a client that does not know of the move, the one that gave
        the range refuses until then, and the other one does so, too."""
        self.assertEqual(self.old_client().get(key), value)

    def put_all(self, keys: list[bytes], value: bytes) -> None:
        """Lets keys hold a value."""
        self.client.transact(lambda tranx: [tranx.put(key, value) for key in keys])

    def test_reads_and_writes_find_a_range_that_has_moved(self):
        keys = [b"b", b"c", b"d", b"i"]
        self.put_all(keys, b"old")
        reader, writer = self.old_client(), self.old_client()
        self.assertEqual(self.move("c", "e", 3), 'server 3 holds "c" up to "e": moved 2 keys\n')
        self.assertEqual(writer.map.server_of(b"c"), 1)
        writer.put(b"c", b"new")
        expected = [b"old", b"new", b"old", b"old"]
        self.assertEqual(reader.transact(lambda tranx: tranx.multi_get(keys)), expected)
        self.assertEqual([reader.map.server_of(key) for key in keys], [1, 3, 3, 2])
        reader.delete(b"d")
        self.assertIsNone(self.client.get(b"d"))
        self.assertEqual(self.servers.command("get", "c").stdout, "new\n")

    def test_a_refusal_that_says_where_a_range_is_lets_the_transaction_begin_again(self):
        self.put_all([b"c"], b"1")
        client = self.old_client()

        def add(tranx: Tranx) -> None:
            count = int(tranx.get(b"c"))
            # The coordinator has to be one that does not know of the move.
            tranx.put(b"q", b"%d" % count)
            tranx.put(b"r", b"%d" % (count + 1))

        tranx = client.begin()
        add(tranx)
        self.move("c", "e", 2)
        self._settle(b"c", b"1")
        with self.assertRaises(RefusedError) as refused:
            tranx.commit()
        refusal = refused.exception.refusal
        self.assertIsInstance(refusal, NotHere)
        self.assertEqual((refusal.server, refusal.key), (1, b"c"))
        self.assertEqual([(moved.to, moved.moves) for moved in refusal.moved], [(2, 1)])
        self.assertEqual(client.map.server_of(b"c"), 2)
        calls = []

        def add_while_it_moves(tranx: Tranx) -> None:
            add(tranx)
            if not calls:
                self.move("c", "e", 1)
            calls.append(tranx)

        client.transact(add_while_it_moves)
        self.assertGreater(len(calls), 1)
        self.assertEqual((client.get(b"q"), client.get(b"r")), (b"1", b"2"))

    def test_scans_are_cut_into_the_parts_of_the_map(self):
        keys = [b"%c%d" % (letter, number) for letter in b"abcdhiqz" for number in range(3)]
        self.put_all(keys, b"")
        client = self.old_client()
        self.move("b", "c1", 2)
        self.move("i", "z1", 1)
        with self.assertRaises(Elsewhere) as whole:
            client.ask(1, Scan(Range(b"a", None), 10), Found)
        self.assertEqual(whole.exception.moved.to, 2)
        found = client.transact(lambda tranx: tranx.scan())
        self.assertEqual([key for key, _ in found], keys)
        found = client.transact(lambda tranx: tranx.scan(b"b1", b"q2", 7))
        self.assertEqual([key for key, _ in found], [key for key in keys if key >= b"b1"][:7])
        # What comes into a part of a scanned range refuses, wherever the part is.
        tranx = client.begin()
        tranx.scan(b"a", b"i")
        tranx.put(b"sum", b"")
        self.client.put(b"c05", b"")
        with self.assertRaises(RefusedError):
            tranx.commit()

    def test_a_snapshot_is_read_where_ranges_were_at_its_moment(self):
        keys = [b"b", b"c", b"c1", b"d", b"i", b"z"]
        self.put_all(keys, b"first")
        old = self.old_client()
        first = old.snapshot()
        self.move("c", "d", 2)
        self.put_all(keys, b"second")
        # Of the clients, this one hears of no move but from the servers' maps as of the snapshots.
        second = self.old_client().snapshot()
        self.move("c1", "z1", 3)
        self.client.delete(b"c")
        third = self.client.snapshot()
        self.move("", "z", 1)
        self.put_all(keys, b"last")
        for snapshot in (first, self._anew(first)):
            self.assertEqual(snapshot.scan(), [(key, b"first") for key in keys])
            self.assertEqual(snapshot.multi_get([b"c", b"nothing", b"z"]), [b"first", None, b"first"])
        for snapshot in (second, self._anew(second)):
            self.assertEqual(snapshot.multi_get([b"c1", b"z", b"c"]), [b"second"] * 3)
            self.assertEqual(snapshot.scan(b"c", b"i", 3), [(key, b"second") for key in (b"c", b"c1", b"d")])
        for snapshot in (third, self._anew(third)):
            self.assertEqual(snapshot.scan(b"b", b"j"), [(key, b"second") for key in (b"b", b"c1", b"d", b"i")])
            self.assertIsNone(snapshot.get(b"c"))

    def _anew(self, snapshot: SnapshotView) -> SnapshotView:
        """The same snapshot for a client that has heard of the moves since."""
        client = self.old_client()
        client.transact(lambda tranx: tranx.scan())
        return SnapshotView(client, snapshot.epoch)

    def test_a_range_that_has_moved_away_from_a_dead_server_is_found(self):
        self.put_all([b"b", b"c"], b"held")
        client = self.old_client(request_s=5)
        self.move("c", "d", 2)
        self._settle(b"c", b"held")
        self.servers.kill(0)
        self.assertEqual(client.get(b"c"), b"held")
        with self.assertRaises(UnavailableError):
            client.get(b"b")

    def test_the_key_of_the_maps_is_refused(self):
        self.move("c", "d", 2)
        tranx = self.client.begin()
        tranx.put(MAP_KEY, b"")
        with self.assertRaises(RefusedError) as refused:
            tranx.commit()
        self.assertEqual(refused.exception.refusal, Invalid(Reserved(MAP_KEY)))
        self.assertEqual(self.client.transact(lambda tranx: tranx.scan(b"\xff")), [])

    def test_clients_work_while_ranges_move(self):
        self.put_all(ACCOUNTS, b"%d" % EACH)
        self.put_all(FILLERS, b"filler")
        bank = _Bank(self.servers)
        with ThreadPoolExecutor(3) as threads:
            workers = bank.start(threads)
            try:
                for to in MOVES:
                    bank.await_all()
                    self.move("g", "t", to)
                bank.await_all()
            finally:
                bank.is_over.set()
            for worker in workers:
                worker.result()
        held = dict(self.client.snapshot().scan())
        self.assertEqual(sum(int(held.pop(account)) for account in ACCOUNTS), EACH * len(ACCOUNTS))
        self.assertEqual(held, dict.fromkeys(FILLERS, b"filler"))
        shown = self.servers.command("map").stdout.splitlines()
        self.assertEqual(len([line for line in shown if "server 2" in line and '"g"' in line]), 1, shown)


class _Bank:
    """Clients that work until all is over."""

    def __init__(self, servers: Servers):
        self._servers = servers
        self._chance = random.Random(1)
        # The snapshot before, and what it held.
        self._before: tuple[SnapshotView, list[tuple[bytes, bytes]]] | None = None
        # Of each client one that is released with each step that it has done.
        self._steps = {step: threading.Semaphore(0) for step in (self.transfer, self.audit, self.look)}
        self.is_over = threading.Event()
        self._has_failed = threading.Event()

    def start(self, threads: ThreadPoolExecutor) -> list[Future]:
        """Starts the clients."""
        return [threads.submit(self._work, step) for step in self._steps]

    def _work(self, step: Callable[[Client], None]) -> None:
        """Does a step again and again with a client of its own."""
        try:
            with self._servers.client() as client:
                while not self.is_over.is_set():
                    step(client)
                    self._steps[step].release()
        except BaseException:
            self._has_failed.set()
            raise

    def await_all(self) -> None:
        """Waits until each client has done a step that was begun after the call, if none fails."""
        for done in self._steps.values():
            while done.acquire(blocking=False):
                pass
            for _ in range(2):
                if self._has_failed.is_set() or not done.acquire(timeout=LIMIT_S):
                    raise AssertionError("a client has failed, or got stuck")

    def transfer(self, client: Client) -> None:
        """Moves money between two accounts."""
        payer, payee = self._chance.sample(ACCOUNTS, 2)

        def pay(tranx: Tranx) -> None:
            of_payer, of_payee = tranx.multi_get([payer, payee])
            tranx.put(payer, b"%d" % (int(of_payer) - 1))
            tranx.put(payee, b"%d" % (int(of_payee) + 1))

        client.transact(pay)

    def audit(self, client: Client) -> None:
        """Adds up all accounts in one transaction."""
        found = client.transact(lambda tranx: tranx.scan(b"", FILLERS[0]) + tranx.scan(b"m"))
        self._judge(found)

    def look(self, client: Client) -> None:
        """Reads a snapshot, and the one before it once more."""
        snapshot = client.snapshot()
        held = snapshot.scan()
        self._judge([(key, value) for key, value in held if key not in FILLERS])
        if len(held) != len(ACCOUNTS) + len(FILLERS):
            raise AssertionError(f"snapshot {snapshot.epoch} has {len(held)} keys")
        if self._before is not None:
            before, what_it_held = self._before
            try:
                if before.scan() != what_it_held:
                    raise AssertionError(f"snapshot {before.epoch} is another one now")
            except RefusedError as error:
                if not isinstance(error.refusal, SnapshotTooOld):
                    raise
        self._before = snapshot, held

    @staticmethod
    def _judge(found: list[tuple[bytes, bytes]]) -> None:
        total = sum(int(value) for _, value in found)
        if [key for key, _ in found] != ACCOUNTS or total != EACH * len(ACCOUNTS):
            raise AssertionError(f"there are {len(found)} accounts with {total}")


if __name__ == "__main__":
    unittest.main()
