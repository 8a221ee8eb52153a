"""The Python of the guide, word for word (`docs/code` compares them), and what it has to do. Ends
with 1 when an account holds what it should not.

`drivers/run` puts the addresses of its gateways into a copy of this file.
"""

import pymongo

with pymongo.MongoClient("mongodb://127.0.0.1:27117") as before:
    before.bank.accounts.drop()
    before.bank.accounts.insert_many([{"_id": "ann", "balance": 100}, {"_id": "bob", "balance": 0}])

from pymongo import MongoClient

client = MongoClient("mongodb://127.0.0.1:27117")
accounts = client.bank.accounts


def transfer(session):
    accounts.update_one({"_id": "ann"}, {"$inc": {"balance": -10}}, session=session)
    accounts.update_one({"_id": "bob"}, {"$inc": {"balance": 10}}, session=session)


with client.start_session() as session:
    session.with_transaction(transfer)


def must_be(ann, bob):
    found = {account["_id"]: account["balance"] for account in accounts.find()}
    assert found == {"ann": ann, "bob": bob}, found
    print(found)


must_be(90, 10)

from pymongo.read_concern import ReadConcern

with client.start_session() as session:
    session.with_transaction(transfer, read_concern=ReadConcern("linearizable"))

must_be(80, 20)
accounts.drop()
client.close()
