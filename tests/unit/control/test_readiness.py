from pulsegate.control.readiness import Readiness, readiness_of
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, Incarnation, PoolName
from pulsegate.core.snapshot import EndpointView, PoolView, Snapshot


def view(weight: int, *, ejected: bool = False) -> EndpointView:
    return EndpointView(
        id=EndpointId("e"),
        state=State.HEALTHY if weight else State.WARMING,
        reason=Reason.OK,
        weight=weight,
        low_only=False,
        max_inflight=None,
        ejected=ejected,
        suspect=False,
        incarnation=Incarnation(1),
    )


def pool(name: str, *views: EndpointView, down: bool = False) -> PoolView:
    return PoolView(name=PoolName(name), endpoints=views, down=down)


def answer(*pools: PoolView) -> tuple[Readiness, tuple[str, ...]]:
    report = readiness_of(Snapshot(version=1, pools=pools))
    return report.readiness, report.reasons


def test_every_pool_serves() -> None:
    assert answer(pool("a", view(100), view(0)), pool("b", view(10))) == (Readiness.READY, ())


def test_some_pool_is_down() -> None:
    one_down = answer(pool("a", view(100)), pool("b", view(0)), pool("c", view(100), down=True))
    assert one_down == (Readiness.DEGRADED, ("pool b serves nobody", "pool c serves nobody"))


def test_nobody_serves_or_nothing_is_configured() -> None:
    assert answer(pool("a", view(100, ejected=True))) == (Readiness.NOT_READY, ("pool a serves nobody",))
    assert answer() == (Readiness.NOT_READY, ("nothing is configured",))
