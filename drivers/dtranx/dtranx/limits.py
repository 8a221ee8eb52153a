"""Limits of keys, ranges, requests and transactions, which are checked before anything is sent."""

from .errors import LimitError
from .messages import MAX_ITEMS, MAX_KEY_BYTES, MAX_TRANSACTION_BYTES, Before, Range, Transaction


def key_range(start: bytes, end: bytes | None) -> Range:
    """The range from `start` up to and without `end`."""
    check_key(start)
    if end is not None:
        check_key(end)
    return Range(start, None if end is None else Before(end))


def in_requests(keys: list[bytes]) -> list[list[bytes]]:
    """Keys in lists that one request may have."""
    return [keys[at : at + MAX_ITEMS] for at in range(0, len(keys), MAX_ITEMS)]


def check_key(key: bytes) -> None:
    """Raises an error for a key that is too long."""
    if len(key) > MAX_KEY_BYTES:
        raise LimitError(f"the key has {len(key)} bytes; the limit is {MAX_KEY_BYTES}")


def check_size(transaction: Transaction) -> None:
    """Raises an error for a transaction that is too large."""
    scanned = [key for scan in transaction.scans for key, _ in scan.found]
    items = len(transaction.reads) + len(transaction.scans) + len(transaction.writes) + len(scanned)
    if items > MAX_ITEMS:
        raise LimitError(f"the transaction has {items} reads, writes, scans and scanned keys; the limit is {MAX_ITEMS}")
    size = sum(len(read.key) for read in transaction.reads) + sum(map(len, scanned))
    size += sum(len(scan.range.start) + len(scan.range.end.key if scan.range.end else b"") for scan in transaction.scans)
    size += sum(len(write.key) + len(write.value or b"") for write in transaction.writes)
    if size > MAX_TRANSACTION_BYTES:
        raise LimitError(f"the transaction has {size} bytes; the limit is {MAX_TRANSACTION_BYTES}")
