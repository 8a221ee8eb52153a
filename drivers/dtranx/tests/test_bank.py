"""A bank: this client and the Rust one move money between accounts at the same time, while servers
are killed.

Each transfer leaves a receipt. In the end the accounts hold what the receipts say, every transfer
that was answered has one, and no snapshot on the way saw another sum.
"""

import random
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

from dtranx import Client, Tranx, UnavailableError, UnknownError

from .servers import Servers

ACCOUNTS = [f"account-{number:02}" for number in range(12)]
EACH = 100
# Number of transfers of each thread with this client, and of the one with the command.
TRANSFERS = 60
TRANSFERS_BY_COMMAND = 20
THREADS = 3


class Bank(unittest.TestCase):
    def test_transfers_of_both_clients_are_whole_and_kept_while_each_server_is_killed(self):
        with Servers() as servers, servers.client() as client:
            client.transact(lambda tranx: [tranx.put(account.encode(), b"%d" % EACH) for account in ACCOUNTS])
            bank = _Bank(servers)
            with ThreadPoolExecutor(THREADS + 3) as threads:
                auditor = threads.submit(bank.audit)
                workers = [threads.submit(bank.transfer, f"python-{at}") for at in range(THREADS)]
                workers.append(threads.submit(bank.transfer_by_command, "rust"))
                killer = threads.submit(bank.kill_each)
                try:
                    answered = [receipt for worker in workers for receipt in worker.result()]
                finally:
                    bank.is_over.set()
                killer.result()
                audits = auditor.result()
            held = dict(client.snapshot().scan())
            self._judge(held, answered)
            self.assertGreater(audits, 0, "no audit came to its end")
            scanned = servers.command("scan", "--prefix", "account-").stdout.splitlines()
            self.assertEqual(scanned, [f"{account}\t{held[account.encode()].decode()}" for account in ACCOUNTS])

    def _judge(self, held: dict[bytes, bytes], answered: list[bytes]) -> None:
        expected = dict.fromkeys(ACCOUNTS, EACH)
        for key, value in held.items():
            if key.startswith(b"receipt-"):
                payer, payee = value.decode().split(",")
                expected[payer] -= 1
                expected[payee] += 1
        self.assertEqual({account: int(held[account.encode()]) for account in ACCOUNTS}, expected)
        self.assertEqual([receipt for receipt in answered if receipt not in held], [], "answered, and not kept")
        # A killed server leaves some without an answer, but not many.
        self.assertGreater(len(answered), THREADS * TRANSFERS // 2)
        self.assertTrue(any(receipt.startswith(b"receipt-rust") for receipt in answered))


class _Bank:
    def __init__(self, servers: Servers):
        self._servers = servers
        self.is_over = threading.Event()
        # Released once for each transfer that was tried.
        self._tried = threading.Semaphore(0)

    def transfer(self, who: str) -> list[bytes]:
        """Transfers by this client; the receipts of those that were answered."""
        answered, chance = [], random.Random(who)
        with self._servers.client() as client:
            for number in range(TRANSFERS):
                receipt = f"receipt-{who}-{number}".encode()
                payer, payee = chance.sample(ACCOUNTS, 2)
                if self._transact(client, payer, payee, receipt):
                    answered.append(receipt)
                self._tried.release()
        return answered

    @staticmethod
    def _transact(client: Client, payer: str, payee: str, receipt: bytes) -> bool:
        def move(tranx: Tranx) -> None:
            of_payer, of_payee = tranx.multi_get([payer.encode(), payee.encode()])
            tranx.put(payer.encode(), b"%d" % (int(of_payer) - 1))
            tranx.put(payee.encode(), b"%d" % (int(of_payee) + 1))
            tranx.put(receipt, f"{payer},{payee}".encode())

        try:
            client.transact(move)
        except (UnknownError, UnavailableError):
            return False
        return True

    def transfer_by_command(self, who: str) -> list[bytes]:
        """The same by the command line."""
        answered, chance = [], random.Random(who)
        for number in range(TRANSFERS_BY_COMMAND):
            receipt = f"receipt-{who}-{number}"
            payer, payee = chance.sample(ACCOUNTS, 2)
            while not self.is_over.is_set():
                read = self._servers.command("txn", f"get {payer}", f"get {payee}")
                if read.returncode != 0:
                    continue
                of_payer, of_payee = (int(line.split("\t")[1]) for line in read.stdout.splitlines())
                done = self._servers.command(
                    "txn",
                    f"expect {payer} {of_payer}",
                    f"expect {payee} {of_payee}",
                    f"put {payer} {of_payer - 1}",
                    f"put {payee} {of_payee + 1}",
                    f"put {receipt} {payer},{payee}",
                )
                # 1: one of the accounts holds something else by now. Others: the outcome is not
                # known.
                if done.returncode == 0:
                    answered.append(receipt.encode())
                if done.returncode != 1:
                    break
            self._tried.release()
        return answered

    def audit(self) -> int:
        """Looks at snapshots until it is over: how many had a sum, which has to be right."""
        audits = 0
        with self._servers.client() as client:
            while not self.is_over.is_set():
                try:
                    held = client.read(lambda snapshot: snapshot.scan(b"account-", b"account."))
                except UnavailableError:
                    continue
                total = sum(int(value) for _, value in held)
                if (len(held), total) != (len(ACCOUNTS), len(ACCOUNTS) * EACH):
                    raise AssertionError(f"a snapshot has {len(held)} accounts with {total}")
                audits += 1
        return audits

    def _await_transfer(self) -> None:
        """Waits for one transfer more, unless all is over."""
        while not self._tried.acquire(timeout=0.5) and not self.is_over.is_set():
            pass

    def kill_each(self) -> None:
        """Kills one server after the other, and starts it again, each after some transfers more."""
        for at in range(3):
            for _ in range(15):
                self._await_transfer()
            self._servers.kill(at)
            for _ in range(3):
                # Transfers that need no dead server come to their ends. If there is none, the wait
                # for it is bounded.
                self._tried.acquire(timeout=2)
            self._servers.start(at)


if __name__ == "__main__":
    unittest.main()
