"""What has to be true of the data, while a checkpoint holds and at the end, and of what the
gateways keep."""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from harness.processes import Failed, end

BALANCE = 1000
RESERVED = ["_xTxId", "_unsafe", "_sTxIds", "_insert", "_remove", "_slot"]
LEFT_LIMIT_S = 150
GAUGES = ["connections", "sessions", "cursors", "transactions_open", "buffers_bytes"]


class Books:
    """The accounts and the ledger, as the server stores them."""

    def __init__(self, stage, accounts: int):
        from pymongo import MongoClient

        self._stage, self._accounts = stage, accounts
        self.server = MongoClient(stage.uri)
        self.server.soak.accounts.insert_many([{"_id": n, "balance": BALANCE} for n in range(accounts)])
        self.checkpoints = 0

    def wrong(self) -> list[str]:
        """Reads one collection after the other, as a dump does."""
        bank, wrong = self.server.soak, []
        balances = {one["_id"]: one["balance"] for one in bank.accounts.find()}
        wanted = dict.fromkeys(range(self._accounts), BALANCE)
        for entry in bank.ledger.find():
            if "from" in entry:
                wanted[entry["from"]] -= entry["amount"]
                wanted[entry["to"]] += entry["amount"]
        differ = [n for n, balance in wanted.items() if balances.get(n) != balance]
        if differ:
            wrong.append(f"{len(differ)} accounts differ from the ledger, such as {differ[0]}: {balances.get(differ[0])} for {wanted[differ[0]]}")
        if sum(balances.values()) != BALANCE * self._accounts:
            wrong.append(f"the accounts have {sum(balances.values())} together")
        for name in ("accounts", "ledger"):
            locked = bank[name].count_documents({"$or": [{field: {"$exists": True}} for field in RESERVED]})
            if locked:
                wrong.append(f"{locked} documents of {name} are locked")
        return wrong

    def checkpoint(self) -> list[str]:
        """The checks while a checkpoint holds."""
        mongotx, uri = self._stage.mongotx, self._stage.uri
        began = time.monotonic()
        command = [mongotx, "checkpoint", "--uri", uri, "--hold", "60s", "--", sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"]
        tool = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        held = tool.stdout.readline().strip() == "1"
        settled = time.monotonic() - began
        wrong = self.wrong() if held else ["no checkpoint could be had"]
        messages = tool.communicate(timeout=120)[1].strip().splitlines()
        if tool.returncode != 0:
            wrong.append(f"mongotx checkpoint ended with {tool.returncode}: {messages}")
        self.checkpoints += 1
        print(f"  a checkpoint: {settled:.1f} s until it held; {messages[-1] if messages else ''}; {wrong or 'exact'}", flush=True)
        return [f"while a checkpoint held: {line}" for line in wrong]

    def entries(self, by: str) -> int:
        return self.server.soak.ledger.count_documents({"by": by})


class Memory:
    """Memory of a process over time."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, float]] = []

    def sample(self, now: float, pid: int) -> None:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        self._samples.append((now, kib / 1024))

    def wrong(self) -> list[str]:
        if len(self._samples) < 9:
            return []
        last = self._samples[-1][0]
        part = lambda n: statistics.median(mib for at, mib in self._samples if n * last / 3 <= at <= (n + 1) * last / 3)
        first, middle, end_ = part(0), part(1), part(2)
        print(f"memory of gateway-1, MiB, medians of three parts: {first:.1f}, {middle:.1f}, {end_:.1f}")
        return [f"memory grows: {middle:.1f} to {end_:.1f} MiB"] if end_ > middle * 1.1 + 8 else []


def check_end(stage, crews, books: Books, memory: Memory) -> list[str]:
    """The checks when all clients have ended."""
    wrong = _left_in_gateways(stage)
    for gateway in (stage.first, stage.second):
        end(gateway.process)
        if gateway.process.returncode != 0:
            wrong.append(f"{gateway.name} ended with {gateway.process.returncode}")
    doctor = subprocess.run([stage.mongotx, "doctor", "--repair", "--uri", stage.uri], capture_output=True, text=True, timeout=300)
    if doctor.returncode != 0:
        wrong.append(f"mongotx doctor --repair: {doctor.stdout}")
    wrong += books.wrong() + _left_in_store(books.server) + memory.wrong()
    for crew in crews:
        for life in crew.lives:
            wrong += _wrong_of_life(life, books.entries(life["name"]))
        print(f"{crew.summary()}, {crew.total('read')} reads, {len(crew.lives)} lives")
    print(f"{books.checkpoints} checkpoints, {books.server.soak.ledger.estimated_document_count()} transfers in the ledger")
    return wrong


def _wrong_of_life(life: dict, entries: int) -> list[str]:
    """The fault of one life of a program. One that was killed may have had answers that it could
    not report."""
    committed, most = life["committed"], life["committed"] + life["unknown"]
    if entries < committed or (entries > most and not life["killed"]):
        return [f"{life['name']}: {entries} entries in the ledger for {json.dumps(life)}"]
    return []


def _left_in_gateways(stage) -> list[str]:
    deadline, left = time.monotonic() + LEFT_LIMIT_S, ["?"]
    while left and time.monotonic() < deadline:
        time.sleep(2)
        kept = [(gateway.name, name, gateway.metric(name)) for gateway in (stage.first, stage.second) for name in GAUGES]
        left = [f"{name} has {value:.0f} {gauge} left" for name, gauge, value in kept if value]
    return left


def _left_in_store(server) -> list[str]:
    wrong = []
    open_records = server.mongotx.txs.count_documents({"low": {"$exists": True}, "closedAt": {"$exists": False}})
    if open_records:
        wrong.append(f"{open_records} client records are open")
    if orphans := server.mongotx.orphans.count_documents({}):
        wrong.append(f"{orphans} orphans were rolled back")
    return wrong
