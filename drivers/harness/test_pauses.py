"""Tests that pauses of the machine are distinguished from load. `drivers/run` runs this first."""

import unittest

from .pauses import PAUSE_S, TICK_S, Pauses


class Noticing(unittest.TestCase):
    def test_late_ticks_are_no_pause(self):
        self.assertEqual(self.paused([TICK_S, PAUSE_S, TICK_S], since=0), 0)

    def test_a_pause(self):
        self.assertEqual(self.paused([TICK_S, 2 * PAUSE_S, TICK_S], since=0), 2 * PAUSE_S)

    def test_a_pause_before(self):
        long_before = 2 * PAUSE_S
        self.assertEqual(self.paused([long_before, TICK_S, 3 * PAUSE_S], since=long_before + TICK_S), 3 * PAUSE_S)

    def paused(self, between_ticks: list[float], since: float) -> float:
        clock = [0.0]
        pauses = Pauses(lambda: clock[0])
        for seconds in between_ticks:
            clock[0] += seconds
            pauses.tick()
        return pauses.since(since)
