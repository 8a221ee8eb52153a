"""The Python of the project's README, word for word (`docs/code` compares them), and what it has to
do. Ends with 1 when an account holds what it should not.

`drivers/run` puts the addresses of its gateways into a copy of this file.
"""

import pymongo

with pymongo.MongoClient("mongodb://127.0.0.1:27117") as before:
    before.bank.accounts.drop()

from pymongo import MongoClient

client = MongoClient("mongodb://127.0.0.1:27117")
accounts = client.bank.accounts
accounts.insert_many([{"_id": 1, "balance": 100}, {"_id": 2, "balance": 0}])
with client.start_session() as session, session.start_transaction():
    accounts.update_one({"_id": 1}, {"$inc": {"balance": -10}}, session=session)
    accounts.update_one({"_id": 2}, {"$inc": {"balance": 10}}, session=session)

found = list(accounts.find().sort("_id"))
assert found == [{"_id": 1, "balance": 90}, {"_id": 2, "balance": 10}], found
print(found)
accounts.drop()
client.close()
