import asyncio

from hypothesis import given
from hypothesis import strategies as st

from pulsegate.control.wheel import Wheel
from support.virtual_time import VirtualClock, VirtualTimeLoop, run_virtual


def fired(appointments: list[tuple[float, str]], *, until: float) -> list[tuple[float, str]]:
    """What a wheel fires, as (when, key), if these appointments are made at time 0."""
    seen: list[tuple[float, str]] = []

    async def main(loop: VirtualTimeLoop) -> None:
        wheel: Wheel[str] = Wheel(VirtualClock(loop), loop, lambda key, _due: seen.append((loop.time(), key)))
        for due, key in appointments:
            wheel.put(key, due)
        await asyncio.sleep(until)

    run_virtual(main)
    return seen


def test_fires_each_key_at_its_time() -> None:
    assert fired([(3.0, "c"), (1.0, "a"), (2.0, "b")], until=2.5) == [(1.0, "a"), (2.0, "b")]


def test_a_new_appointment_replaces_the_old_one_whether_earlier_or_later() -> None:
    assert fired([(3.0, "a"), (1.0, "a"), (1.0, "b"), (4.0, "b")], until=9) == [(1.0, "a"), (4.0, "b")]


def test_what_is_due_already_is_met_at_once() -> None:
    assert fired([(-5.0, "a")], until=1) == [(0.0, "a")]


def test_a_key_can_make_its_next_appointment_while_it_fires_and_drop_others() -> None:
    seen: list[tuple[float, str]] = []

    async def main(loop: VirtualTimeLoop) -> None:
        def fire(key: str, due: float) -> None:
            seen.append((loop.time(), key))
            wheel.put(key, due + 1.0)
            wheel.drop("never")

        wheel: Wheel[str] = Wheel(VirtualClock(loop), loop, fire)
        wheel.put("a", 1.0)
        wheel.put("never", 1.5)
        await asyncio.sleep(3.5)
        assert len(wheel) == 1
        wheel.stop()
        await asyncio.sleep(10)

    run_virtual(main)
    assert seen == [(1.0, "a"), (2.0, "a"), (3.0, "a")]


def test_replaced_appointments_do_not_pile_up() -> None:
    async def main(loop: VirtualTimeLoop) -> int:
        wheel: Wheel[int] = Wheel(VirtualClock(loop), loop, lambda _key, _due: None)
        for round_number in range(1000):
            wheel.put(1, 1000.0 + round_number)
            wheel.drop(2)
        return len(wheel._heap)

    assert run_virtual(main) < 100


@given(st.dictionaries(st.integers(0, 50), st.floats(0, 100), max_size=30))
def test_every_key_fires_once_in_order_of_time(appointments: dict[int, float]) -> None:
    seen = fired([(due, str(key)) for key, due in appointments.items()], until=101)
    assert sorted(key for _, key in seen) == sorted(str(key) for key in appointments)
    assert [when for when, _ in seen] == sorted(when for when, _ in seen)
    # up to the millisecond by which an event loop may wake early
    assert all(abs(when - appointments[int(key)]) <= 0.001 for when, key in seen)
