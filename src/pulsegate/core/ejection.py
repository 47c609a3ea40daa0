"""Who is taken out of routing, and for how long. *Detected* (unhealthy) and *enforced* (out) are two things.

Brakes on the way out: ``choose`` limits soft reasons to a share of the pool. Brakes on the way back: every ejection
within the flap window doubles the hold-off, then slow start. Weights themselves are ``weights.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pulsegate.core.fleet import EjectionPolicy
from pulsegate.core.ids import EndpointId


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """One unhealthy endpoint of a pool.

    ``hard``: there is no doubt (frozen counters, fatal error, wrong output). ``cut_off``: it could not be connected to,
    so a suspect network may be to blame. ``enforced``: it is out already.
    """

    endpoint: EndpointId
    since: float
    hard: bool
    cut_off: bool
    enforced: bool


def budget(pool_size: int, policy: EjectionPolicy) -> int:
    """How many endpoints of a pool may be out while soft reasons are among theirs; at least one."""
    return max(1, pool_size * policy.max_ejection_percent // 100)


def choose(
    detected: Sequence[Detected], pool_size: int, policy: EjectionPolicy, *, others_give: bool, network_suspect: bool
) -> frozenset[EndpointId]:
    """Who of the detected is out.

    ``others_give``: some endpoint of the pool still gives tokens. If none does the pool is down and all are out,
    because a request that waits there waits for nothing. Who is out already stays out, budget or not: the budget is
    there against ejecting on a hunch, not for putting back who is known not to answer. While the network is suspect
    nobody is out for not being reachable.
    """
    within_reach = [one for one in detected if not (network_suspect and one.cut_off)]
    if not others_give:
        return frozenset(one.endpoint for one in within_reach)
    out = [one.endpoint for one in within_reach if one.hard or one.enforced]
    soft = sorted((one for one in within_reach if not one.hard and not one.enforced), key=lambda one: one.since)
    free = max(0, budget(pool_size, policy) - len(out))
    return frozenset(out + [one.endpoint for one in soft[:free]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where one endpoint stands with ejections. Times are monotonic seconds.

    ``past`` are the enforced ejections within the flap window, newest last. ``hold_until``: no traffic before, however
    well it does. ``ramp_from``: slow start began then; None: no ramp.
    """

    enforced: bool = False
    past: tuple[float, ...] = ()
    hold_until: float | None = None
    ramp_from: float | None = None


INNOCENT = Standing()


def eject(standing: Standing, policy: EjectionPolicy, at: float) -> Standing:
    """Taken out now."""
    past = (*(then for then in standing.past if at - then < policy.flap_window_s), at)
    hold_s = min(policy.hold_off_max_s, policy.hold_off_s * 2 ** (len(past) - 1))
    return Standing(enforced=True, past=past, hold_until=at + hold_s)


def pardon(standing: Standing) -> Standing:
    """Taken out by mistake (the network, the budget): put back as if it had not happened."""
    return Standing(past=standing.past[:-1])


def release(standing: Standing) -> Standing:
    """It gives tokens again: no longer ejected; the hold-off goes on."""
    return replace(standing, enforced=False)


def admit(standing: Standing, at: float) -> Standing:
    """The hold-off is over: slow start begins."""
    return replace(standing, hold_until=None, ramp_from=at)


def ramped(standing: Standing) -> Standing:
    """Slow start is over."""
    return replace(standing, ramp_from=None)
