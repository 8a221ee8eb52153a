"""A transaction that is open: an insert through a gateway, in the few words of MongoDB's protocol
that this needs. Nothing has to be installed for it."""

import socket
import struct
import uuid

LIMIT_S = 30
OP_MSG = 2013


class OpenTransaction:
    """A connection with a transaction that has inserted one document into `shop.orders`."""

    def __init__(self, port: int):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        command = {
            "insert": "orders",
            "documents": [{"_id": 1}],
            "lsid": {"id": uuid.uuid4()},
            "txnNumber": 1,
            "startTransaction": True,
            "autocommit": False,
            "$db": "shop",
        }
        message = struct.pack("<iB", 0, 0) + document(command)
        self.socket.sendall(struct.pack("<iiii", 16 + len(message), 1, 0, OP_MSG) + message)
        with self.socket.makefile("rb") as answer:
            [length] = struct.unpack("<i", answer.read(4))
            said = answer.read(length - 4)
        if element("ok", 1.0) not in said:
            raise ValueError(f"the gateway refuses a transaction: {said!r}")

    def close(self) -> None:
        """Ends the connection."""
        self.socket.close()


def document(fields: dict) -> bytes:
    """BSON of a document."""
    body = b"".join(element(name, value) for name, value in fields.items())
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def element(name: str, value: object) -> bytes:
    """BSON of a field. Integers have 64 bits."""
    match value:
        case bool():
            kind, data = 0x08, bytes([value])
        case int():
            kind, data = 0x12, struct.pack("<q", value)
        case float():
            kind, data = 0x01, struct.pack("<d", value)
        case str():
            text = value.encode() + b"\0"
            kind, data = 0x02, struct.pack("<i", len(text)) + text
        case uuid.UUID():
            kind, data = 0x05, struct.pack("<iB", 16, 4) + value.bytes
        case dict():
            kind, data = 0x03, document(value)
        case list():
            kind, data = 0x04, document({str(at): each for at, each in enumerate(value)})
        case _:
            raise TypeError(f"{name}: {value!r}")
    return bytes([kind]) + name.encode() + b"\0" + data
