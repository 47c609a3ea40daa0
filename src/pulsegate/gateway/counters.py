"""What a worker counts, as plain integers that the hot path adds to; snapshots of them go out in batches."""

from bisect import bisect_left
from collections.abc import Callable, Iterable

from pulsegate.core.events import TrafficSeen
from pulsegate.core.figures import (
    GAP_BOUNDS_S,
    OWN_BOUNDS_S,
    TTFT_BOUNDS_S,
    EndpointFigures,
    Histogram,
    ProviderFigures,
    RouteFigures,
    WorkerFigures,
)
from pulsegate.core.ids import EndpointId
from pulsegate.core.routing import Seat
from pulsegate.gateway.usage import Usage


class Tally:
    """A histogram that is added to."""

    __slots__ = ("_bounds", "counts", "total_s")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        """Count one measurement."""
        self.counts[bisect_left(self._bounds, seconds)] += 1
        self.total_s += seconds

    def histogram(self) -> Histogram:
        """As it is now."""
        return Histogram(counts=self.counts.copy(), total_s=self.total_s)


class EndpointCounters:
    """One endpoint. Lives as long as the endpoint is configured.

    ``sign_at`` is when it last gave a sign of life to users: a token, a whole answer, or a 4xx (the web process and
    the engine answered), ``answered_from`` when the attempt that was answered then had begun. ``busy_since`` is when it
    last went from idle to busy.
    """

    __slots__ = (
        "_reported_inflight",
        "_reported_tokens",
        "answered_from",
        "attempts",
        "busy_since",
        "failures",
        "gaps",
        "hint_at",
        "hint_gap_s",
        "seat",
        "sign_at",
        "tokens",
        "ttft",
        "unreported_failures",
        "unreported_stalls",
    )

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.attempts = 0
        self.failures: dict[str, int] = {}
        self.tokens = 0
        self.ttft = Tally(TTFT_BOUNDS_S)
        self.gaps = Tally(GAP_BOUNDS_S)
        self.sign_at = 0.0
        self.answered_from = 0.0
        self.busy_since = 0.0
        self.hint_at = 0.0
        self.hint_gap_s = 0.0
        self.unreported_failures = 0
        self.unreported_stalls = 0
        self._reported_inflight = 0
        self._reported_tokens = 0

    def failed(self, kind: str, *, evidence: bool) -> None:
        """An attempt failed there; ``evidence`` whether that says something about the endpoint."""
        self.failures[kind] = self.failures.get(kind, 0) + 1
        if evidence:
            self.unreported_failures += 1

    def stalled(self) -> None:
        """Users wait there for a token longer than they should."""
        self.unreported_stalls += 1

    @property
    def urgent(self) -> bool:
        """Whether there is something that should be reported at once."""
        return self.unreported_failures > 0 or self.unreported_stalls > 0

    def report(self, at: float) -> TrafficSeen | None:
        """What happened since the last report, None if nothing did."""
        tokens, inflight = self.tokens - self._reported_tokens, self.seat.inflight
        if not tokens and not self.urgent and inflight == self._reported_inflight:
            return None
        seen = TrafficSeen(
            at=at,
            endpoint=self.seat.id,
            tokens=tokens,
            failures=self.unreported_failures,
            stalls=self.unreported_stalls,
            inflight=inflight,
        )
        self._reported_inflight = inflight
        self._reported_tokens = self.tokens
        self.unreported_failures = self.unreported_stalls = 0
        return seen

    def figures(self) -> EndpointFigures:
        """Everything, as running totals."""
        return EndpointFigures(
            endpoint=self.seat.id,
            inflight=self.seat.inflight,
            attempts=self.attempts,
            failures=dict(self.failures),
            tokens=self.tokens,
            ttft=self.ttft.histogram(),
            gaps=self.gaps.histogram(),
        )


class RouteCounters:
    """One public model name."""

    __slots__ = (
        "completion_tokens",
        "hedges",
        "name",
        "prompt_tokens",
        "replays",
        "requests",
        "rescued",
        "usage_missing",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests: dict[int, int] = {}
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.usage_missing = 0
        self.replays: dict[str, int] = {}
        self.hedges = 0
        self.rescued = 0

    def ended(self, status: int) -> None:
        """A request is over; ``status`` as the client saw it."""
        self.requests[status] = self.requests.get(status, 0) + 1

    def used(self, usage: Usage | None) -> None:
        """What a request that was answered well has used; None counts as missing, not as zero."""
        if usage is None:
            self.usage_missing += 1
            return
        self.prompt_tokens += usage.prompt_tokens or 0
        self.completion_tokens += usage.completion_tokens or 0

    def replayed(self, cause: str) -> None:
        """One more attempt was started because of ``cause``."""
        if cause == "suspect":
            self.hedges += 1
        else:
            self.replays[cause] = self.replays.get(cause, 0) + 1

    def figures(self) -> RouteFigures:
        """Everything, as running totals."""
        return RouteFigures(
            route=self.name,
            requests=dict(self.requests),
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            usage_missing=self.usage_missing,
            replays=dict(self.replays),
            hedges=self.hedges,
            rescued=self.rescued,
        )


class Counters:
    """All of a worker's counters.

    Those of endpoints, routes and providers that are configured no more are kept: totals never fall.
    """

    __slots__ = ("connections", "endpoints", "own", "providers", "refused", "routes")

    def __init__(self) -> None:
        self.connections = 0
        self.refused: dict[str, int] = {}
        self.own = Tally(OWN_BOUNDS_S)
        self.endpoints: dict[EndpointId, EndpointCounters] = {}
        self.routes: dict[str, RouteCounters] = {}
        self.providers: dict[str, dict[str, int]] = {}

    def endpoint(self, seat: Seat) -> EndpointCounters:
        """The counters of this endpoint."""
        return self.endpoints.setdefault(seat.id, EndpointCounters(seat))

    def route(self, name: str) -> RouteCounters:
        """The counters of this public model name."""
        return self.routes.setdefault(name, RouteCounters(name))

    def provider(self, name: str) -> dict[str, int]:
        """Attempts at this provider by what they came to."""
        return self.providers.setdefault(name, {})

    def refuse(self, code: str) -> None:
        """A request ended before it was routed."""
        self.refused[code] = self.refused.get(code, 0) + 1

    def reports(self, clock: Callable[[], float], of: Iterable[EndpointCounters] | None = None) -> list[TrafficSeen]:
        """What happened at endpoints since the last report."""
        at = clock()
        endpoints = self.endpoints.values() if of is None else of
        return [seen for counters in endpoints if (seen := counters.report(at)) is not None]

    def figures(self, *, in_flight: int, retries_under_way: int) -> WorkerFigures:
        """Everything, as running totals."""
        return WorkerFigures(
            connections=self.connections,
            in_flight=in_flight,
            retries_under_way=retries_under_way,
            refused=dict(self.refused),
            endpoints=[counters.figures() for counters in self.endpoints.values()],
            routes=[counters.figures() for counters in self.routes.values()],
            own=self.own.histogram(),
            providers=[ProviderFigures(provider=name, outcomes=dict(o)) for name, o in self.providers.items()],
        )
