from pulsegate.control.readiness import CostState, CostView, Knowledge, Readiness, ReadinessReport, readiness_of
from pulsegate.core.fleet import RouteSpec
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, Incarnation, PoolName
from pulsegate.core.provider_status import ProviderState, ProviderStatus
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


ROUTES = (RouteSpec(name="chat", tiers=(PoolName("own"), PoolName("hosted"))),)
HOSTED = ((PoolName("hosted"), "deepseek"),)


def provider(state: ProviderState, reason: str = "") -> ProviderStatus:
    return ProviderStatus(name="deepseek", configured=True, state=state, reason=reason, checked_at=1.0)


def with_provider(own: PoolView, status: ProviderStatus, cost: CostView | None = None) -> ReadinessReport:
    known = Knowledge(routes=ROUTES, providers=(status,), hosted=HOSTED, cost=cost or CostView())
    return readiness_of(Snapshot(version=1, pools=(own, pool("hosted", view(100)))), known)


def test_a_fallback_that_serves_makes_degraded() -> None:
    report = with_provider(pool("own", view(0), down=True), provider(ProviderState.UP))
    assert (report.readiness, report.reasons) == (Readiness.DEGRADED, ("pool own serves nobody",))
    assert [(model.status, model.served_by) for model in report.models] == [("degraded", "hosted")]


def test_a_provider_that_is_down_is_no_fallback() -> None:
    report = with_provider(pool("own", view(0), down=True), provider(ProviderState.DOWN, "billing"))
    assert report.readiness is Readiness.NOT_READY
    assert report.reasons == ("pool own serves nobody", "provider deepseek is down: billing")
    report = with_provider(pool("own", view(100)), provider(ProviderState.DOWN, "billing"))
    assert (report.readiness, report.reasons) == (Readiness.DEGRADED, ("provider deepseek is down: billing",))


def test_a_closed_cost_gate_is_degraded_with_the_reason() -> None:
    cost = CostView(status=CostState.CLOSED, detail="20 of 20 CNY are spent")
    report = with_provider(pool("own", view(100)), provider(ProviderState.UP), cost)
    assert (report.readiness, report.reasons) == (
        Readiness.DEGRADED,
        ("paid calls are refused: 20 of 20 CNY are spent",),
    )
    warning = CostView(status=CostState.WARNING, detail="16 of 20 CNY are spent")
    assert with_provider(pool("own", view(100)), provider(ProviderState.UP), warning).readiness is Readiness.READY


def test_before_the_first_round_of_probes_is_over() -> None:
    starting = PoolView(name=PoolName("a"), endpoints=(view(0),), down=True, starting=True)
    assert answer(starting) == (Readiness.NOT_READY, ("pool a is starting: its first round of probes is not over",))
