"""Who probes what: even, the same for everybody, and little moves when members come and go."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsegate.core.fleet import Fleet
from pulsegate.core.ids import MemberId
from pulsegate.core.sharding import FAIR_SHARE, GROUP_SIZE, Mode, deal, groups
from support.samples import fleet, pool, spec


def fleet_of(*sizes: int) -> Fleet:
    return fleet(
        *(
            pool(*(spec(f"p{number}-e{n:04}", pool=f"p{number}") for n in range(size)), name=f"p{number}")
            for number, size in enumerate(sizes)
        )
    )


def members(count: int) -> tuple[MemberId, ...]:
    return tuple(MemberId(f"gateway-{number}") for number in range(count))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 20))
def test_every_endpoint_has_an_owner_and_another_witness(sizes: list[int], count: int) -> None:
    posts = deal(fleet_of(*sizes), members(count), Mode.SHARD)
    assert len(posts) == sum(sizes)
    for post in posts.values():
        assert post.owner in members(count)
        assert (post.witness is None) is (count == 1)
        assert post.witness != post.owner


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.permutations(members(7)))
def test_who_knows_the_same_members_divides_alike(sizes: list[int], order: list[MemberId]) -> None:
    assert deal(fleet_of(*sizes), order, Mode.SHARD) == deal(fleet_of(*sizes), members(7), Mode.SHARD)


@pytest.mark.parametrize(("size", "count"), [(60, 3), (60, 10), (24, 3), (2000, 20)])
def test_nobody_gets_much_more_than_a_fair_share(size: int, count: int) -> None:
    held = Counter(post.owner for post in deal(fleet_of(size), members(count), Mode.SHARD).values())
    assert max(held.values()) <= max(FAIR_SHARE * size / count, 2 * GROUP_SIZE)


def test_little_moves_when_a_member_leaves() -> None:
    before = deal(fleet_of(2000), members(20), Mode.SHARD)
    after = deal(fleet_of(2000), members(19), Mode.SHARD)
    moved = sum(1 for one, post in before.items() if after[one].owner != post.owner)
    lost = sum(1 for post in before.values() if post.owner == members(20)[-1])
    assert lost <= moved <= 2.5 * lost


def test_the_leader_is_the_longest_standing_and_the_next_is_its_witness() -> None:
    order = (MemberId("z"), MemberId("a"), MemberId("m"))
    assert set(deal(fleet_of(9), order, Mode.LEADER).values()) == {("z", "a")}


@given(st.integers(0, 60))
def test_groups_are_large_enough_to_compare_answers(size: int) -> None:
    made = groups(fleet_of(size).pools[0])
    assert [one for group in made for one in group] == sorted(one.id for one in fleet_of(size).pools[0].endpoints)
    assert all(GROUP_SIZE <= len(group) < 2 * GROUP_SIZE for group in made) or size < GROUP_SIZE


def test_ranks_of_one_server_stay_together() -> None:
    ranks = [spec(f"10.0.0.{host}:8000#dp{rank}") for host in range(4) for rank in range(4)]
    posts = deal(fleet(pool(*ranks)), members(4), Mode.SHARD)
    for host in range(4):
        assert len({posts[rank.id].owner for rank in ranks if rank.id.startswith(f"10.0.0.{host}:")}) == 1
