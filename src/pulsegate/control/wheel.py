"""Thousands of appointments, one timer.

Keeps when each key is due next and calls back at that time. Says nothing about what is due or how often.
"""

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from pulsegate.control.ports import Cancellable, Clock, Timers

K = TypeVar("K", bound=Hashable)

EARLY_S = 0.001  # uvloop counts in milliseconds: waking this much early is being on time
TIDY_AT_LEAST = 64  # do not tidy heaps smaller than this


class Wheel(Generic[K]):
    """Calls ``fire(key, due)`` when a key is due; each key has at most one appointment.

    ``fire`` may make new appointments; one that is due already is met at the next turn of the loop, not recursively.
    """

    __slots__ = ("_clock", "_entries", "_fire", "_heap", "_seq", "_timer", "_timer_due", "_timers")

    def __init__(self, clock: Clock, timers: Timers, fire: Callable[[K, float], object]) -> None:
        self._clock = clock
        self._timers = timers
        self._fire = fire
        self._heap: list[tuple[float, int, K]] = []
        self._entries: dict[K, int] = {}  # which heap entry of a key counts; older ones are skipped when met
        self._seq = 0
        self._timer: Cancellable | None = None
        self._timer_due = 0.0

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: K, due: float) -> None:
        """Make an appointment, in the place of an earlier one for the same key."""
        self._seq += 1
        self._entries[key] = self._seq
        heappush(self._heap, (due, self._seq, key))
        self._arm()

    def drop(self, key: K) -> None:
        """Forget the appointment of this key, if there is one."""
        self._entries.pop(key, None)
        if len(self._heap) > TIDY_AT_LEAST + 2 * len(self._entries):
            self._heap = [entry for entry in self._heap if self._entries.get(entry[2]) == entry[1]]
            heapify(self._heap)

    def stop(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        due = self._heap[0][0]
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer_due = due
        self._timer = self._timers.call_at(due, self._wake)

    def _wake(self) -> None:
        self._timer = None
        for due, key in self._take_due(self._clock.now() + EARLY_S):
            self._fire(key, due)
        if self._heap:
            self._arm()

    def _take_due(self, until: float) -> list[tuple[float, K]]:
        heap, entries = self._heap, self._entries
        taken: list[tuple[float, K]] = []
        while heap and heap[0][0] <= until:
            due, seq, key = heappop(heap)
            if entries.get(key) == seq:
                del entries[key]
                taken.append((due, key))
        return taken

    def __repr__(self) -> str:
        return f"Wheel(appointments={len(self._entries)})"
