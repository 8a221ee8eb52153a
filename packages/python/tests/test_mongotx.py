"""The installed package: transactions through its gateways, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time

import mongotx
import pytest
from pymongo import MongoClient

# The longest that anything here is waited for.
LIMIT_S = 60
KILLED = """
import os, signal, sys, mongotx
with mongotx.local() as uri:
    print(uri, flush=True)
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def uri():
    with mongotx.local() as uri:
        yield uri


@pytest.fixture
def accounts(uri):
    with MongoClient(uri) as client:
        accounts = client.bank.accounts
        accounts.drop()
        accounts.insert_many([{"_id": 1, "balance": 100}, {"_id": 2, "balance": 0}])
        yield accounts


def transfer(accounts, session):
    accounts.update_one({"_id": 1}, {"$inc": {"balance": -10}}, session=session)
    accounts.update_one({"_id": 2}, {"$inc": {"balance": 10}}, session=session)


def balances(accounts):
    return [account["balance"] for account in accounts.find().sort("_id")]


def test_a_transaction_commits(accounts):
    with accounts.database.client.start_session() as session:
        session.with_transaction(lambda session: transfer(accounts, session))
    assert balances(accounts) == [90, 10]


def test_a_transaction_is_rolled_back(accounts):
    with accounts.database.client.start_session() as session, session.start_transaction():
        transfer(accounts, session)
        session.abort_transaction()
    assert balances(accounts) == [100, 0]


def test_a_gateway_shows_a_router_or_a_replica_set(accounts):
    assert accounts.database.client.admin.command("hello")["msg"] == "isdbgrid"
    with mongotx.local(replica_set="rs0", isolation="serializable") as uri, MongoClient(uri) as client:
        assert client.admin.command("hello")["setName"] == "rs0"


def test_a_gateway_in_front_of_a_server(server):
    waiting = ["--wait-for-server", str(LIMIT_S)]
    with mongotx.gateway(f"mongodb://{server}", options=waiting) as uri, MongoClient(uri) as client:
        with client.start_session() as session, session.start_transaction():
            client.shop.orders.insert_one({"_id": 1}, session=session)
        assert client.shop.orders.count_documents({}) == 1


def test_an_error_has_the_log():
    with pytest.raises(mongotx.MongoTxError, match="--uri"):
        with mongotx.gateway("mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100"):
            pass


def test_everything_ends_when_the_process_is_killed():
    with subprocess.Popen([sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        uri = parent.stdout.readline().strip()
        gateways = children(parent.pid)
        servers = [server for gateway in gateways for server in children(gateway)]
        assert len(gateways) == 1 and len(servers) >= 1
        assert MongoClient(uri).admin.command("ping")["ok"] == 1
        parent.stdin.write("die\n")
        parent.stdin.flush()
        assert parent.wait(LIMIT_S) == -signal.SIGKILL
    deadline = time.monotonic() + LIMIT_S
    while any(is_running(pid) for pid in gateways + servers):
        assert time.monotonic() < deadline, "something is left behind"
        time.sleep(0.05)


def test_the_command_is_the_binary():
    said = subprocess.run([sys.executable, "-m", "mongotx", "--version"], stdout=subprocess.PIPE, text=True, check=True)
    assert said.stdout.startswith("mongotx ")
    command = os.path.join(os.path.dirname(sys.executable), "mongotx")
    assert subprocess.run([command, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout == said.stdout


def children(parent: int) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as stat:
                fields = stat.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(name))
    return found


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
