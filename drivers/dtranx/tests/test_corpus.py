"""One of each kind of message, as the server encodes it (the fuzzer's corpus), is read and written
again to the same bytes; what is changed at random is a message, or unreadable."""

import contextlib
import random
import unittest
from pathlib import Path

from dtranx.codec import Unreadable, decode, encode
from dtranx.messages import Hello, Request, Response, Welcome

CORPUS = Path(__file__).resolve().parents[3] / "fuzz" / "corpus" / "dtranx_payload"
# By the first byte of an entry; others are messages of servers, and records.
KINDS = [Hello, Welcome, Request, Response]
CHANGES = 3_000


def entries() -> list[tuple[str, object, bytes]]:
    """Name, type and bytes of each."""
    read = [(path.name, path.read_bytes()) for path in sorted(CORPUS.iterdir())]
    return [(name, KINDS[data[0]], data[1:]) for name, data in read if data[0] < len(KINDS)]


class Corpus(unittest.TestCase):
    def test_each_message_is_read_and_written_as_it_was(self):
        self.assertGreater(len(entries()), 25)
        for name, hint, data in entries():
            with self.subTest(name):
                self.assertEqual(encode(decode(hint, data), hint), data)

    def test_what_is_left_out_or_added_is_unreadable(self):
        for name, hint, data in entries():
            for changed in (data[:-1], data + b"\0"):
                with self.subTest(name), self.assertRaises(Unreadable):
                    decode(hint, changed)

    def test_what_is_changed_is_a_message_or_unreadable(self):
        chance, all_entries = random.Random(1), entries()
        for _ in range(CHANGES):
            name, hint, data = chance.choice(all_entries)
            changed = bytearray(data)
            for _ in range(chance.randint(1, 4)):
                changed[chance.randrange(len(changed))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            with self.subTest(name, changed=changed.hex()), contextlib.suppress(Unreadable):
                decode(hint, bytes(changed))


if __name__ == "__main__":
    unittest.main()
