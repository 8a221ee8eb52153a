"""A bank: one transfer that is committed, and one that is rolled back. Ends with 1 when an account
holds what it should not."""

import os
import sys

from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.collection import Collection


class NotEnough(Exception):
    """The payer has less than that."""


def transfer(accounts: Collection, session: ClientSession, payer: str, payee: str, amount: int) -> None:
    """Both accounts change, or neither."""

    def statements(session: ClientSession) -> None:
        accounts.update_one({"_id": payee}, {"$inc": {"balance": amount}}, session=session)
        accounts.update_one({"_id": payer}, {"$inc": {"balance": -amount}}, session=session)
        if accounts.find_one({"_id": payer}, session=session)["balance"] < 0:
            raise NotEnough(f"{payer} has less than {amount}")

    # Runs them again when another transaction came in between, and sends the commit again when its
    # answer was lost.
    session.with_transaction(statements)


def balances(accounts: Collection) -> dict[str, int]:
    return {account["_id"]: account["balance"] for account in accounts.find()}


def must_be(accounts: Collection, alice: int, bob: int) -> None:
    found = balances(accounts)
    if found != {"alice": alice, "bob": bob}:
        sys.exit(f"wrong: {found}")
    print(found)


def main() -> None:
    with MongoClient(os.environ.get("MONGODB_URI", "mongodb://127.0.0.1:27117")) as client:
        accounts = client.bank_python.accounts
        accounts.drop()
        accounts.insert_many([{"_id": "alice", "balance": 100}, {"_id": "bob", "balance": 0}])
        with client.start_session() as session:
            transfer(accounts, session, "alice", "bob", 30)
            must_be(accounts, 70, 30)
            try:
                transfer(accounts, session, "alice", "bob", 1_000)
                sys.exit("wrong: alice had enough")
            except NotEnough as error:
                print(f"rolled back: {error}")
            must_be(accounts, 70, 30)
        accounts.drop()


main()
