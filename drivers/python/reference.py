"""The Python of the pages about the gateway and about change streams, word for word (`docs/code`
compares them), and what it has to do. Ends with 1 when it does not do it.

`drivers/run` puts the addresses of its gateways into a copy of this file.
"""

from threading import Event, Thread

from pymongo import MongoClient

client = MongoClient("mongodb://127.0.0.1:27117")


def deposit_until(is_seen: Event):
    """Gives the stream something to show, whenever it is open."""
    while not is_seen.wait(0.1):
        if "accounts" in client.bank.list_collection_names():
            client.bank.accounts.update_one({"_id": 1}, {"$inc": {"balance": 1}}, upsert=True)


client.bank.accounts.drop()
is_seen = Event()
depositor = Thread(target=deposit_until, args=[is_seen], daemon=True)
depositor.start()

client.bank.create_collection("accounts", changeStreamPreAndPostImages={"enabled": True})
with client.bank.accounts.watch(full_document="whenAvailable") as stream:
    for event in stream:
        print(event["operationType"], event["documentKey"], event.get("updateDescription"))
        token = event["_id"]  # watch(resume_after=token) goes on behind it, through any gateway
        break

assert event["documentKey"] == {"_id": 1}, event
with client.bank.accounts.watch(resume_after=token) as stream:
    balance = next(stream)["updateDescription"]["updatedFields"]["balance"]
    assert balance == event["fullDocument"]["balance"] + 1, balance
is_seen.set()
depositor.join()

accounts = client.bank.accounts
plan = accounts.find({"owner": "ann"}).explain()
plan["queryPlanner"]["winningPlan"], plan["executionStats"]["totalDocsExamined"]
plan["mongotx"]["command"], plan["mongotx"]["stages"]  # how MongoTx runs it

from pymongo.read_concern import ReadConcern

accounts = client.bank.get_collection("accounts", read_concern=ReadConcern("snapshot"))
accounts.aggregate([{"$group": {"_id": None, "total": {"$sum": "$balance"}}}])

accounts.drop()
client.close()
