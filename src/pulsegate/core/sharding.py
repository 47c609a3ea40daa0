"""Which of several gateways probes which endpoint: the same answer in every replica that knows the same members."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

from pulsegate.core.fleet import Fleet, PoolSpec
from pulsegate.core.ids import EndpointId, MemberId

GROUP_SIZE = 4
"""Endpoints of one pool that are dealt out together, at least: answers can be compared only by who has them all."""

FAIR_SHARE = 1.25
"""How many times the mean one member may get, before the next in its order gets the rest (Mirrokni et al. 2018)."""


class Mode(StrEnum):
    """How the work is divided."""

    SHARD = "shard"  # everybody probes a part of the fleet
    LEADER = "leader"  # the longest-standing member probes all of it


class Posts(NamedTuple):
    """Who answers for one endpoint. The ``witness`` is asked when the ``owner`` condemns it and may be wrong."""

    owner: MemberId
    witness: MemberId | None


def deal(fleet: Fleet, members: Sequence[MemberId], mode: Mode) -> Mapping[EndpointId, Posts]:
    """Everybody's posts. ``members`` in the order of their admission, none twice, at least one.

    In shard mode by rendezvous hashing, so that little of the work moves when a member comes or goes, with a bound on
    what each may get, because a small fleet is a few groups and would be divided unevenly.
    """
    posts: dict[EndpointId, Posts] = {}
    size = sum(len(pool.endpoints) for pool in fleet.pools)
    most, held = size * FAIR_SHARE / len(members), dict.fromkeys(members, 0)
    for pool in fleet.pools:
        for group in groups(pool):
            if mode is Mode.LEADER:
                order = list(members)
            else:
                order = _ranked(f"{pool.name}/{group[0]}", members)
                room = [member for member in order if held[member] + len(group) <= most]
                first = room[0] if room else min(order, key=lambda member: held[member])
                order.insert(0, order.pop(order.index(first)))
            held[order[0]] += len(group)
            post = Posts(order[0], order[1] if len(order) > 1 else None)
            posts.update((endpoint, post) for endpoint in group)
    return posts


def groups(pool: PoolSpec) -> list[list[EndpointId]]:
    """A pool's endpoints in groups of ``GROUP_SIZE`` to twice as many, neighbours (as ranks of a server) together."""
    ordered = sorted(spec.id for spec in pool.endpoints)
    count = max(1, len(ordered) // GROUP_SIZE)
    return [ordered[len(ordered) * n // count : len(ordered) * (n + 1) // count] for n in range(count) if ordered]


def _ranked(key: str, members: Sequence[MemberId]) -> list[MemberId]:
    """By their scores, the highest first (Thaler and Ravishankar 1998, highest random weight)."""
    return sorted(members, key=lambda member: _score(key, member), reverse=True)


def _score(key: str, member: MemberId) -> bytes:
    return blake2b(f"{key}|{member}".encode(), digest_size=8).digest()
