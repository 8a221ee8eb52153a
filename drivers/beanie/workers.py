"""A bank with eight tellers at once, with Beanie. Ends with 1 when a transfer is lost or made
twice, also when the gateway that they use is killed under their hands: then they go on at another
one.
"""

import asyncio
import os
import random
import sys

import pymongo
from beanie import Document, PydanticObjectId, init_beanie
from pymongo import AsyncMongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import PyMongoError

TELLERS, TRANSFERS, ACCOUNTS, BALANCE = 8, 25, 4, 1_000
# Longer than what a dead gateway had locked stays locked: what it has not committed by then is
# rolled back.
GIVE_UP_S, ATTEMPTS = 25, 5


class Account(Document):
    """Balance of an account."""

    id: int
    balance: int


class Transfers(Document):
    """Number of transfers that were made."""

    id: int
    made: int


class Receipt(Document):
    """Receipt of a transfer that was made."""


async def transfer(session: AsyncClientSession, receipt: PydanticObjectId) -> None:
    """Reads three documents, changes them, and saves them. Leaves a receipt."""
    await Receipt(id=receipt).insert(session=session)
    transfers = await Transfers.get(0, session=session)
    payer, payee = [await Account.get(id, session=session) for id in random.sample(range(ACCOUNTS), 2)]
    amount = random.randint(1, 10)
    transfers.made += 1
    payer.balance -= amount
    payee.balance += amount
    for document in (transfers, payer, payee):
        await document.save(session=session)


async def transfer_once(session: AsyncClientSession) -> None:
    """Makes a transfer, and makes it once: where the driver cannot know whether it was committed,
    the receipt shows it."""
    receipt = PydanticObjectId()
    for _ in range(ATTEMPTS):
        try:
            with pymongo.timeout(GIVE_UP_S):
                # Runs it again when another transaction came in between, and sends the commit again
                # when its answer was lost.
                await session.with_transaction(lambda session: transfer(session, receipt))
            return
        except PyMongoError as error:
            print(f"it is looked up whether a transfer was made: {error}", flush=True)
            if await Receipt.get(receipt):
                return
    sys.exit(f"a transfer could not be made in {ATTEMPTS} attempts")


async def teller(client: AsyncMongoClient, ended: list[None]) -> None:
    async with client.start_session() as session:
        for _ in range(TRANSFERS):
            await transfer_once(session)
            ended.append(None)
            if len(ended) == TELLERS * TRANSFERS // 2:
                print("half of the transfers are made", flush=True)


async def main() -> None:
    async with AsyncMongoClient(os.environ.get("MONGODB_URI", "mongodb://127.0.0.1:27117")) as client:
        await client.drop_database("bank_beanie")
        await init_beanie(client.bank_beanie, document_models=[Account, Receipt, Transfers])
        await Account.insert_many([Account(id=id, balance=BALANCE) for id in range(ACCOUNTS)])
        await Transfers(id=0, made=0).insert()
        # Collections are not made in transactions.
        await Receipt().insert()
        ended: list[None] = []
        await asyncio.gather(*(teller(client, ended) for _ in range(TELLERS)))
        made = (await Transfers.get(0)).made
        total = sum([account.balance async for account in Account.find_all()])
        receipts = await Receipt.count() - 1
        print(f"{made} transfers, {receipts} receipts, {total} in all accounts")
        if (made, receipts, total) != (TELLERS * TRANSFERS, TELLERS * TRANSFERS, ACCOUNTS * BALANCE):
            sys.exit(f"wrong: {TELLERS * TRANSFERS} transfers of {ACCOUNTS * BALANCE}")
        await client.drop_database("bank_beanie")


asyncio.run(main())
