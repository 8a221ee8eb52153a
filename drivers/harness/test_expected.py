"""Tests that runs are judged rightly. `drivers/run` runs this first."""

import tempfile
import unittest
from pathlib import Path

from .expected import MESSAGE_LINES, Expected, Outcome, judge, read, tell

LIST = Expected(2, {"known": "G1"})


class Judging(unittest.TestCase):
    def test_as_expected(self):
        outcome = Outcome({"a", "b"}, {"known"}, {"c"})
        self.assertEqual(judge(outcome, LIST), [])
        self.assertEqual(tell(outcome, LIST), "2 passed, 1 failed (1 of them known), 1 skipped")

    def test_a_new_failure(self):
        self.assertEqual(judge(Outcome({"a", "b"}, {"known", "x"}), LIST), ["failed: x"])

    def test_the_end_of_a_message(self):
        outcome = Outcome({"a", "b"}, {"known"})
        outcome.fail("x", "".join(f"line {number}\n" for number in range(MESSAGE_LINES + 1)))
        [wrong] = judge(outcome, LIST)
        self.assertEqual(wrong.splitlines()[:2], ["failed: x", "      line 1"])
        self.assertEqual(len(wrong.splitlines()), MESSAGE_LINES + 1)

    def test_a_list_that_is_out_of_date(self):
        [wrong] = judge(Outcome({"a", "known"}), LIST)
        self.assertIn("passes, though", wrong)
        [wrong] = judge(Outcome({"a", "b"}, set(), {"known"}), LIST)
        self.assertIn("did not run", wrong)

    def test_a_suite_that_skips_everything(self):
        [wrong] = judge(Outcome({"a"}, {"known"}, {"b"}), LIST)
        self.assertIn("only 1 tests passed", wrong)

    def test_what_is_chance_is_not_judged(self):
        expected = Expected(2, {}, {"chance"})
        for outcome in [Outcome({"a", "b", "chance"}), Outcome({"a", "b"}, {"chance"})]:
            self.assertEqual(judge(outcome, expected), [])
            self.assertEqual(tell(outcome, expected), "2 passed, 0 failed, 0 skipped, 1 not judged")
        [wrong] = judge(Outcome({"a", "chance"}), expected)
        self.assertIn("only 1 tests passed", wrong)


class Reading(unittest.TestCase):
    def read(self, text: str) -> Expected:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "list")
            path.write_text(text, encoding="utf-8")
            return read(path)

    def test_a_list(self):
        expected = self.read("# why\nat-least 2\n\nG1 known\nunjudged chance\n")
        self.assertEqual(expected, Expected(2, {"known": "G1"}, {"chance"}))

    def test_lines_that_are_wrong(self):
        for text in ["G1\n", "G1 a\nG2 a\n", "at-least many\n"]:
            with self.assertRaises(ValueError):
                self.read(text)
