"""Pools, seats and plans for tests of routing, moved by snapshots as a worker's are."""

from collections.abc import Iterable
from dataclasses import replace

from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, Incarnation, PoolName
from pulsegate.core.routing import Plan, Seat, affinity_seed_of, compile_plan, seat_views
from pulsegate.core.snapshot import EndpointView, PoolView


def view(name: str, weight: int = 100, **changes: object) -> EndpointView:
    """A healthy endpoint, but for the changes."""
    sound = EndpointView(
        id=EndpointId(name),
        state=State.HEALTHY,
        reason=Reason.OK,
        weight=weight,
        low_only=False,
        max_inflight=None,
        ejected=False,
        suspect=False,
        incarnation=Incarnation(1),
    )
    return replace(sound, **changes)


def pool(name: str, *views: EndpointView, down: bool = False, starting: bool = False) -> PoolView:
    return PoolView(name=PoolName(name), endpoints=views, down=down, starting=starting)


class Room:
    """The seats of one route and its plan as of now.

    ``Room({"main": ["a", "b"], "spare": ["x"]})`` is a route whose pool is main with two healthy endpoints.
    """

    def __init__(self, pools: dict[str, list[str]]) -> None:
        self.views = {PoolName(name): pool(name, *map(view, endpoints)) for name, endpoints in pools.items()}
        self.seats = {
            EndpointId(endpoint): Seat(
                id=EndpointId(endpoint), pool=PoolName(name), affinity_seed=affinity_seed_of(endpoint)
            )
            for name, endpoints in pools.items()
            for endpoint in endpoints
        }
        self.plan: Plan
        self._apply()

    def __getitem__(self, name: str) -> Seat:
        return self.seats[EndpointId(name)]

    def current_plan(self) -> Plan:
        return self.plan

    def change(self, name: str, **changes: object) -> tuple[list[Seat], list[Seat]]:
        """A snapshot that differs in one endpoint; a pool whose endpoints all have weight 0 is down."""
        of = self[name].pool
        endpoints = tuple(replace(one, **changes) if one.id == name else one for one in self.views[of].endpoints)
        self.views[of] = pool(of, *endpoints, down=not any(one.weight for one in endpoints))
        return self._apply()

    def starts(self, name: str) -> None:
        """Its pool has not given a token yet."""
        views = [replace(one, weight=0, state=State.WARMING, reason=Reason.STARTING) for one in self._pool(name)]
        self.views[PoolName(name)] = pool(name, *views, down=True, starting=True)
        self._apply()

    def serves(self, name: str, *, dead: bool = False) -> None:
        """The start of its pool is over: it serves, or not."""
        views = [replace(one, weight=0 if dead else 100) for one in self._pool(name)]
        self.views[PoolName(name)] = pool(name, *views, down=dead)
        self._apply()

    def _pool(self, name: str) -> tuple[EndpointView, ...]:
        return self.views[PoolName(name)].endpoints

    def eject(self, name: str) -> tuple[list[Seat], list[Seat]]:
        return self.change(name, weight=0, ejected=True, suspect=False, state=State.UNHEALTHY, reason=Reason.HUNG)

    def _apply(self) -> tuple[list[Seat], list[Seat]]:
        changed = seat_views(self.seats, self.views.values())
        self.plan = compile_plan("main", tuple(self.views), self.views, self.seats)
        return changed


def names(seats: Iterable[Seat]) -> list[str]:
    return [seat.id for seat in seats]
