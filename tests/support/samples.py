"""Values that many tests need and none of them is about."""

from pulsegate.core.events import Transitioned
from pulsegate.core.fleet import EndpointSpec, Fleet, PoolSpec, ProbePolicy, RouteSpec
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, Incarnation, PoolName, PromptId
from pulsegate.core.probe import ProbeAsk, ProbeKind
from pulsegate.core.status import EndpointStatus


def spec(name: str = "e1", *, pool: str = "m", url: str | None = None, api_key: str | None = None) -> EndpointSpec:
    return EndpointSpec(
        id=EndpointId(name), pool=PoolName(pool), url=url or f"http://{name}.test:8000", model="real", api_key=api_key
    )


def pool(*specs: EndpointSpec, name: str = "m", probe: ProbePolicy | None = None) -> PoolSpec:
    return PoolSpec(name=PoolName(name), endpoints=specs, probe=probe or ProbePolicy())


def fleet(*pools: PoolSpec) -> Fleet:
    return Fleet(pools=pools, routes=tuple(RouteSpec(name=one.name, tiers=(one.name,)) for one in pools))


def went(endpoint: str = "e1", *, at: float = 0.0, new: State = State.UNHEALTHY, pool: str = "m") -> Transitioned:
    return Transitioned(
        at=at,
        endpoint=EndpointId(endpoint),
        pool=PoolName(pool),
        incarnation=Incarnation(1),
        old=State.HEALTHY,
        new=new,
        old_reason=Reason.OK,
        reason=Reason.HUNG,
        detail="no token in 800 ms",
    )


def ask(kind: ProbeKind = ProbeKind.MICRO, *, deadline_s: float = 0.8) -> ProbeAsk:
    return ProbeAsk(
        kind=kind, prompt_id=PromptId("p1"), prompt="x 2+2=", nonce="x", max_tokens=1, deadline_s=deadline_s
    )


def status(
    spec: EndpointSpec,
    *,
    state: State = State.HEALTHY,
    reason: Reason = Reason.OK,
    weight: int = 100,
    ttft_s: float | None = 0.05,
    inflight: int = 0,
) -> EndpointStatus:
    return EndpointStatus(
        id=spec.id,
        pool=spec.pool,
        url=spec.url,
        engine=spec.engine,
        served_model=None,
        state=state,
        reason=reason,
        judged=state,
        detail="",
        since=0.0,
        weight=weight,
        low_only=False,
        max_inflight=None,
        suspect=False,
        ttft_s=ttft_s,
        inflight=inflight,
        incarnation=Incarnation(1),
        last_probe_at=None,
        next_probe_at=None,
        detected=False,
        enforced=False,
        hold_until=None,
        successes=(),
        failures=(),
        transitions=(),
        probes=0,
    )
