"""A standalone server that does not belong to a gateway."""

import socket
import subprocess

import mongotx
import pytest
from pymongo import MongoClient

# The longest that the server may take to start.
START_LIMIT_MS = 60_000


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """Its address."""
    mongod = subprocess.run([mongotx.binary(), "mongod-path"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = tmp_path_factory.mktemp("mongod")
    command = [mongod, "--dbpath", folder, "--port", str(port), "--bind_ip", "127.0.0.1", "--nounixsocket", "--logpath", folder / "log"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        with MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=START_LIMIT_MS) as client:
            client.admin.command("ping")
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
