"""One server on trial: probed by the same prober and judged by the same board as in service, until there is a verdict.

The run-once path, for ``pulsegate probe`` and for tests. When to stop is all that is decided here.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from pulsegate.control.audience import Audience
from pulsegate.control.errors import InvariantError
from pulsegate.control.ports import Clock, EngineFactory, Timers
from pulsegate.control.prober import Prober
from pulsegate.control.reports import ProbeReport
from pulsegate.control.selfcheck import LoopLag
from pulsegate.core.board import Board
from pulsegate.core.events import Effect, Tick, Transitioned
from pulsegate.core.fleet import EndpointSpec, Fleet, PoolSpec, ProbePolicy
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import PoolName
from pulsegate.core.outcome import OutcomeKind
from pulsegate.core.probe import Counters
from pulsegate.core.snapshot import Snapshot
from pulsegate.core.status import EndpointStatus, ProbeNote

GAP_S = 0.2
"""From the deadline of one probe to the next one."""

MOST_PROBES = 8
"""A server that comes to no verdict by then (a token now and then) will come to none."""

_FINAL = frozenset({State.HEALTHY, State.UNHEALTHY, State.MISCONFIGURED})
_NOT_JUDGED = frozenset({Reason.LOADING, Reason.SLEEPING})
_SAYS_NOTHING = frozenset({OutcomeKind.LOCAL, OutcomeKind.BUSY})
_NO_FAILURE = _SAYS_NOTHING | {OutcomeKind.TOKEN, OutcomeKind.TRUNCATED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What was found: the server's status at the end, and every probe in order."""

    status: EndpointStatus
    notes: tuple[ProbeNote, ...]


def trial_policy(policy: ProbePolicy, *, deep: bool, probes: int | None) -> ProbePolicy:
    """The policy for a server that somebody waits for at a terminal.

    Probes follow one another without a pause, and no deep probe is asked for unless wished. ``probes`` is how many
    shall be enough for a verdict; None leaves ``rise`` and ``fall``.
    """
    interval_s = policy.timeout_s + GAP_S
    if probes is not None:
        policy = replace(policy, rise=probes, fall=min(policy.fall, probes))
    return replace(
        policy,
        interval_s=interval_s,
        busy_interval_s=interval_s,
        jitter=0.0,
        deep_interval_s=policy.deep_interval_s if deep else 0.0,
    )


async def hold_trial(
    spec: EndpointSpec,
    policy: ProbePolicy,
    *,
    probes: int | None,
    open_engine: EngineFactory,
    clock: Clock,
    rng: Random,
    seen: Callable[[ProbeNote], None] = lambda _: None,
) -> Trial:
    """Probe until the verdict is clear, and at least ``probes`` times. ``seen`` is told of each probe at its end."""
    loop = asyncio.get_running_loop()
    board = Board(rng)
    watcher = _Watcher(board, spec, policy, probes, seen)
    audience = Audience(publisher=watcher, crashes=watcher, observers=(watcher,), probe_observers=(watcher,))
    timers: Timers = loop
    prober = Prober(
        board=board,
        open_engine=open_engine,
        audience=audience,
        clock=clock,
        timers=timers,
        lag=LoopLag(clock, timers),
    )
    pool = PoolSpec(name=PoolName(spec.pool), endpoints=(spec,), probe=policy)
    async with asyncio.TaskGroup() as group:
        probing = group.create_task(prober.run(Fleet(pools=(pool,), routes=())))
        await watcher.over.wait()
        probing.cancel()
    return watcher.found()


class _Watcher:
    """Watches one endpoint and says when enough was seen. Implements all observers' ports and ``Publisher``."""

    def __init__(
        self,
        board: Board,
        spec: EndpointSpec,
        policy: ProbePolicy,
        probes: int | None,
        seen: Callable[[ProbeNote], None],
    ) -> None:
        self.over = asyncio.Event()
        self._board = board
        self._spec = spec
        self._policy = policy
        self._probes = probes
        self._seen = seen
        self._notes: list[ProbeNote] = []
        self._status: EndpointStatus | None = None
        self._crash: BaseException | None = None

    def found(self) -> Trial:
        """What was seen.

        Raises:
            InvariantError: the prober failed.
        """
        if self._crash is not None:
            raise InvariantError("the prober failed") from self._crash
        if self._status is None:
            raise InvariantError("a trial ended before it began")
        return Trial(status=self._status, notes=tuple(self._notes))

    def probed(self, report: ProbeReport) -> None:
        """One more probe; the board keeps it with what it amounts to."""
        status = self._board.status(self._spec.id)
        if status is None or self.over.is_set():
            return
        note = max((*status.successes, *status.failures), key=lambda note: note.at)
        self._notes.append(note)
        if self._has_had_its_chance(status):
            self._board.apply(Tick(at=report.at + self._policy.startup_deadline_s))
            status = self._board.status(self._spec.id) or status
        self._status = status
        self._seen(note)
        if self._is_clear(status):
            self.over.set()

    def saw(self, effect: Effect) -> None:
        """The verdict can also change between probes, when the counters have been read."""
        if isinstance(effect, Transitioned) and self._notes and not self.over.is_set():
            self._status = self._board.status(self._spec.id) or self._status
            if effect.new is State.UNHEALTHY:
                self.over.set()

    def crashed(self, what: str, exc: BaseException) -> None:
        """Our own mistake ends the trial."""
        del what
        self._crash = exc
        self.over.set()

    def offer(self, snapshot: Snapshot) -> None:
        """Nobody routes here."""

    def watching(self, fleet: Fleet) -> None:
        """It begins."""

    def counted(self, spec: EndpointSpec, counters: Counters | None) -> None:
        """The board knows what it means."""

    def _has_had_its_chance(self, status: EndpointStatus) -> bool:
        """A server that is asked for is expected to run: nobody waits here until its start-up deadline is over."""
        if status.state is not State.WARMING or status.reason in _NOT_JUDGED or len(self._notes) < (self._probes or 1):
            return False
        last = self._notes[-self._policy.fall :]
        return len(last) >= self._policy.fall and all(note.outcome.kind not in _NO_FAILURE for note in last)

    def _is_clear(self, status: EndpointStatus) -> bool:
        if status.state is State.MISCONFIGURED:
            return True
        if self._probes is not None and len(self._notes) < self._probes:
            return False
        if status.state in _FINAL or len(self._notes) >= MOST_PROBES:
            return True
        if status.state is State.WARMING:
            idle = status.reason in _NOT_JUDGED or self._notes[-1].outcome.kind in _SAYS_NOTHING
            return idle and len(self._notes) >= self._policy.fall
        settled = sum(note.at >= status.since for note in self._notes)
        return settled >= self._policy.rise
