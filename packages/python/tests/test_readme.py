"""The programs of README.md, run as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

from pymongo import MongoClient

README = Path(__file__).resolve().parent.parent / "README.md"
LIMIT_S = 120
ADDRESS = "127.0.0.1:27017"


def test_every_program(server, tmp_path):
    gateway, fixture = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    transfers(gateway, server)
    is_used(fixture, tmp_path)


def transfers(program, server):
    assert ADDRESS in program
    with MongoClient(server) as client:
        client.bank.accounts.insert_many([{"_id": 1, "balance": 100}, {"_id": 2, "balance": 0}])
        run(["-c", program.replace(ADDRESS, server)])
        assert [account["balance"] for account in client.bank.accounts.find().sort("_id")] == [90, 10]


def is_used(fixture, folder):
    test = "def test_it(client):\n    assert client.admin.command('hello')['msg'] == 'isdbgrid'\n"
    (folder / "test_application.py").write_text(f"{fixture}\n\n{test}", encoding="utf-8")
    run(["-m", "pytest", "-q", "-p", "no:cacheprovider", folder])


def run(arguments):
    done = subprocess.run([sys.executable, "-B", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout
