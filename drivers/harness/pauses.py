"""Notices that the whole machine stood still, as virtual machines do when they are moved or saved.

Leases end meanwhile, and a suite's own time limits with them: what fails then says nothing about
what is tested.
"""

import threading
import time
from collections.abc import Callable

TICK_S = 0.5
# Seconds of delay from which on a tick was not only late because the machine is busy.
PAUSE_S = 5.0


class Pauses:
    """Counts ticks that come too late, from `begin` on."""

    def __init__(self, now: Callable[[], float] = time.monotonic):
        self._now = now
        self._last = now()
        # End and length of each pause.
        self._found: list[tuple[float, float]] = []

    def begin(self) -> None:
        """Ticks in the background until the program ends."""
        threading.Thread(target=self._tick_for_ever, daemon=True).start()

    def _tick_for_ever(self) -> None:
        while True:
            time.sleep(TICK_S)
            self.tick()

    def tick(self) -> None:
        """One tick."""
        now = self._now()
        if now - self._last > PAUSE_S:
            self._found.append((now, now - self._last))
        self._last = now

    def since(self, moment: float) -> float:
        """Seconds that the machine stood still in pauses that ended after this moment of the same
        clock."""
        return sum(length for ended, length in list(self._found) if ended >= moment)
