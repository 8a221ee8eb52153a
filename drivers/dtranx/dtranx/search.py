"""Reads of keys whose range may have moved: a server that does not hold them says where they are,
as far as it knows."""

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from .errors import UnavailableError
from .map import KeyMap, successor
from .messages import MAX_ITEMS, Item, Moved, Range

Result = TypeVar("Result")
# Pauses while a range is moving, in seconds.
FIRST_WAIT_S = 0.0005
LAST_WAIT_S = 0.05


class Elsewhere(Exception):
    """A server does not hold what it was asked for, or did not at the snapshot's moment."""

    def __init__(self, server: int, moved: Moved):
        super().__init__(f"server {server} does not hold the range")
        self.server, self.moved = server, moved


def find(client: Any, once: Callable[[KeyMap], Result]) -> Result:
    """Calls `once` with the client's map, again and again with what the last call has shown, until
    each server holds what it is asked for."""
    until, wait_s, has_asked_all = time.monotonic() + client.request_s, FIRST_WAIT_S, False
    while True:
        try:
            return once(client.map)
        except Elsewhere as answer:
            is_news = client.map.learn(answer.moved)
            if time.monotonic() >= until:
                why = f"server {answer.server} does not hold the keys, and no server says that it does"
                raise UnavailableError(why) from None
            if not is_news:
                time.sleep(random.uniform(wait_s / 2, wait_s))
                wait_s = min(2 * wait_s, LAST_WAIT_S)
        except UnavailableError as error:
            # The range may have moved away from a server that does not answer.
            if has_asked_all or client.map.is_fixed or error.server is None:
                raise
            has_asked_all = True
            if not client.map.learn_all(client.maps_of_others(error.server)):
                raise


def scan(
    find_by: Callable[[Callable[[KeyMap], Any]], Any], keys: Range, limit: int | None, look: Callable
) -> tuple[dict[bytes, Item], bytes | None]:
    """Requests a range from the servers of all of its parts, round after round, until there is
    enough or no more; `find_by` calls what it is given with a map. Returns the items, in order, and
    the last key that all parts were looked at for, if that was not the whole range."""
    found: dict[bytes, Item] = {}
    while True:
        left = None if limit is None else limit - len(found)
        count = min(left or MAX_ITEMS, MAX_ITEMS)
        items, through = find_by(lambda key_map, keys=keys, count=count: _round(key_map, keys, count, look))
        in_order = sorted(key for key in items if through is None or key <= through)
        if left is not None and len(in_order) > left:
            in_order, through = in_order[:left], in_order[left - 1]
        found |= {key: items[key] for key in in_order}
        if through is None or limit is not None and len(found) >= limit:
            return found, through
        start = successor(through)
        keys = Range(start or b"", keys.end)
        if start is None or keys.is_empty():
            return found, None


def _round(key_map: KeyMap, keys: Range, count: int, look: Callable) -> tuple[dict[bytes, Item], bytes | None]:
    """One request for each part; the items, and the last key that was looked at in all of them."""
    items, through = {}, None
    for part, server in key_map.parts(keys):
        if through is not None and part.start > through:
            # What is found from here on would not count.
            break
        some, last = look(server, part, count)
        items.update(some)
        through = last if through is None else through if last is None else min(through, last)
    return items, through
