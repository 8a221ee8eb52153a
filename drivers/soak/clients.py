"""Clients of the soak with PyMongo, a thread each. See README.md for what all three programs do."""

import json
import os
import random
import signal
import sys
import threading
import time

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

ACCOUNTS = int(os.environ["SOAK_ACCOUNTS"])
PAUSE_S = float(os.environ["SOAK_PAUSE_S"])
NAME = os.environ["SOAK_NAME"]

client = MongoClient(os.environ["MONGODB_URI"], maxPoolSize=None, serverSelectionTimeoutMS=20_000)
bank = client.soak
over = threading.Event()
counting = threading.Lock()
counts = {"committed": 0, "failed": 0, "unknown": 0, "read": 0}


def count(what: str) -> None:
    with counting:
        counts[what] += 1


def transfer(which: int, n: int) -> None:
    payer, payee = random.sample(range(ACCOUNTS), 2)
    entry = {"_id": f"{NAME}-{which}-{n}", "by": NAME, "from": payer, "to": payee, "amount": 1}

    def body(session) -> None:
        bank.accounts.update_one({"_id": payer}, {"$inc": {"balance": -1}}, session=session)
        bank.accounts.update_one({"_id": payee}, {"$inc": {"balance": 1}}, session=session)
        bank.ledger.insert_one(entry, session=session)

    try:
        with client.start_session() as session:
            session.with_transaction(body)
        count("committed")
    except PyMongoError as error:
        # Only the ledger shows whether it was committed.
        is_unknown = error.has_error_label("UnknownTransactionCommitResult") or not isinstance(error, OperationFailure)
        count("unknown" if is_unknown else "failed")


def read() -> None:
    try:
        # Some cursors are left in the middle.
        cursor = bank.ledger.find({}, batch_size=20).limit(100)
        for _ in range(random.choice([1, 30, 100])):
            next(cursor, None)
        cursor.close()
        count("read")
    except PyMongoError:
        count("failed")


def live(which: int) -> None:
    n = 0
    over.wait(random.uniform(0, PAUSE_S))
    while not over.is_set():
        n += 1
        transfer(which, n) if random.random() < 0.8 else read()
        over.wait(random.uniform(0.5, 1.5) * PAUSE_S)


def tell() -> None:
    with counting:
        print(json.dumps(counts), flush=True)


signal.signal(signal.SIGTERM, lambda *_: over.set())
threads = [threading.Thread(target=live, args=(which,)) for which in range(int(os.environ["SOAK_CLIENTS"]))]
for thread in threads:
    thread.start()
while not over.is_set():
    time.sleep(0.5)
    tell()
for thread in threads:
    thread.join()
client.close()
tell()
sys.exit(0)
