"""The preface, frames, and their checksum."""

import struct

from .codec import Unreadable
from .errors import OtherVersionError
from .messages import VERSION

LIMIT_BYTES = 16 << 20
HEADER = struct.Struct("<II")
PREFACE = struct.Struct("<4sHH")
_POLYNOMIAL = 0x82F63B78


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """CRC-32C."""
    crc = 0xFFFF_FFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFF_FFFF


def preface(version: int = VERSION) -> bytes:
    """The preface: the first bytes of each side."""
    return PREFACE.pack(b"DTRX", version, 0)


def check_preface(data: bytes) -> None:
    """Checks the first bytes of the other side."""
    magic, version, zero = PREFACE.unpack(data)
    if magic != b"DTRX" or zero != 0:
        raise OtherVersionError("the other side does not speak the protocol of DTranx")
    if version != VERSION:
        raise OtherVersionError(f"the server speaks version {version} of the protocol; this client speaks {VERSION}")


def frame(payload: bytes) -> bytes:
    """A payload as a frame."""
    return HEADER.pack(len(payload), crc32c(payload)) + payload


class Incoming:
    """Bytes that have come and were not read."""

    def __init__(self):
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        """Adds bytes that have come."""
        self._data += data

    def preface(self) -> bool:
        """Takes the preface, once it is here."""
        if len(self._data) < PREFACE.size:
            return False
        check_preface(bytes(self._data[: PREFACE.size]))
        del self._data[: PREFACE.size]
        return True

    def payload(self) -> bytes | None:
        """The payload of the next frame, once it is here."""
        if len(self._data) < HEADER.size:
            return None
        length, checksum = HEADER.unpack_from(self._data)
        if length > LIMIT_BYTES:
            raise Unreadable(f"a frame of {length} bytes; the limit is {LIMIT_BYTES}")
        end = HEADER.size + length
        if len(self._data) < end:
            return None
        payload = bytes(self._data[HEADER.size : end])
        del self._data[:end]
        if crc32c(payload) != checksum:
            raise Unreadable("a frame was damaged on the way")
        return payload
