"""What a client makes of what it hears about ranges that have moved."""

import unittest

from dtranx.codec import Unreadable, encode
from dtranx.map import KeyMap
from dtranx.messages import Before, ByRanges, Cluster, Hash, Moved, Piece, Range, Ranges, StoredMap, Through

FIRSTS = [(b"", 1), (b"h", 2), (b"p", 1)]
LETTERS = [bytes([letter]) for letter in b"abcdefghijklmnopqrstuvwxyz"]


def key_map() -> KeyMap:
    """Of two servers: the first one has the beginning and the end."""
    return KeyMap(Cluster("bank", [], Ranges(FIRSTS)))


def holders(known: KeyMap) -> str:
    """The holders of the keys "a" to "z"."""
    return "".join(str(known.server_of(letter)) for letter in LETTERS)


def until(start: bytes, end: bytes) -> Range:
    """A range."""
    return Range(start, Before(end))


class Map(unittest.TestCase):
    def learned(self, keys: Range, to: int = 3, moves: int = 1) -> KeyMap:
        known = key_map()
        self.assertTrue(known.learn(Moved(keys, to, moves)))
        return known

    def test_a_range_and_no_other_key_gets_its_holder(self):
        self.assertEqual(holders(key_map()), "11111112222222211111111111")
        self.assertEqual(holders(self.learned(until(b"c", b"e"))), "11331112222222211111111111")
        self.assertEqual(holders(self.learned(until(b"g", b"q"))), "11111133333333331111111111")
        everything = self.learned(Range(b"", None))
        self.assertEqual(holders(everything), "3" * 26)
        self.assertEqual(everything.parts(Range(b"", None)), [(Range(b"", None), 3)])
        through = self.learned(Range(b"b", Through(b"b")))
        self.assertEqual((holders(through), through.server_of(b"b\0")), ("13111112222222211111111111", 1))
        last = self.learned(Range(b"b", Through(b"\xff" * 4096)))
        self.assertEqual(holders(last), "1" + "3" * 25)
        self.assertFalse(key_map().learn(Moved(until(b"c", b"c"), 3, 1)))

    def test_more_moves_are_believed_whatever_is_heard_last(self):
        known = self.learned(until(b"c", b"e"), 3, 2)
        self.assertTrue(known.learn(Moved(until(b"a", b"f"), 2, 1)))
        self.assertEqual(holders(known), "22332112222222211111111111")
        self.assertFalse(known.learn(Moved(until(b"c", b"e"), 1, 2)))
        self.assertTrue(known.learn(Moved(until(b"d", b"e"), 2, 3)))
        self.assertEqual(holders(known), "22322112222222211111111111")

    def test_parts_are_of_the_range_and_have_one_holder_each(self):
        parts = key_map().parts(Range(b"g", Through(b"p")))
        self.assertEqual(parts, [(until(b"g", b"h"), 1), (until(b"h", b"p"), 2), (Range(b"p", Through(b"p")), 1)])
        self.assertEqual(key_map().parts(until(b"q", b"g")), [])
        hashed = KeyMap(Cluster("bank", [], Hash([2, 1])))
        self.assertEqual(hashed.parts(until(b"a", b"c")), [(until(b"a", b"c"), 1), (until(b"a", b"c"), 2)])
        self.assertFalse(hashed.learn(Moved(Range(b"", None), 1, 9)))

    def test_a_stored_map_is_learned_and_damage_is_named(self):
        known = self.learned(until(b"p", b"q"), 3, 2)
        stored = ByRanges([Piece(b"", 1, 0), Piece(b"c", 2, 1), Piece(b"e", 1, 0), Piece(b"o", 2, 1)])
        self.assertTrue(known.learn_stored(encode(stored, StoredMap)))
        self.assertEqual(holders(known), "11221112222222232222222222")
        self.assertFalse(known.learn_stored(encode(stored, StoredMap)))
        for damaged in (b"?", b"", encode(ByRanges(stored.pieces[1:]), StoredMap), encode(ByRanges(stored.pieces[::-1]), StoredMap)):
            with self.subTest(damaged), self.assertRaises(Unreadable):
                known.learn_stored(damaged)


if __name__ == "__main__":
    unittest.main()
