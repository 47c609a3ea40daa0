"""Adding up what workers counted."""

from hypothesis import given
from hypothesis import strategies as st

from pulsegate.core.figures import (
    GAP_BOUNDS_S,
    OWN_BOUNDS_S,
    TTFT_BOUNDS_S,
    EndpointFigures,
    Histogram,
    ProviderFigures,
    RouteFigures,
    WorkerFigures,
    nothing,
    total,
)
from pulsegate.core.ids import EndpointId

COUNTS = st.integers(min_value=0, max_value=1000)
NAMES = st.sampled_from(["a", "b", "c"])


def histograms(bounds: tuple[float, ...]) -> st.SearchStrategy[Histogram]:
    size = len(bounds) + 1
    return st.builds(Histogram, counts=st.lists(COUNTS, min_size=size, max_size=size), total_s=COUNTS.map(float))


ENDPOINTS = st.builds(
    EndpointFigures,
    endpoint=NAMES.map(EndpointId),
    attempts=COUNTS,
    failures=st.dictionaries(NAMES, COUNTS),
    tokens=COUNTS,
    ttft=histograms(TTFT_BOUNDS_S),
    gaps=histograms(GAP_BOUNDS_S),
)
ROUTES = st.builds(
    RouteFigures,
    route=NAMES,
    requests=st.dictionaries(st.sampled_from([200, 404, 503]), COUNTS),
    prompt_tokens=COUNTS,
    replays=st.dictionaries(NAMES, COUNTS),
    hedges=COUNTS,
)
PROVIDERS = st.builds(ProviderFigures, provider=NAMES, outcomes=st.dictionaries(NAMES, COUNTS))
WORKERS = st.builds(
    WorkerFigures,
    connections=COUNTS,
    in_flight=COUNTS,
    retries_under_way=COUNTS,
    refused=st.dictionaries(NAMES, COUNTS),
    endpoints=st.lists(ENDPOINTS, max_size=3, unique_by=lambda one: one.endpoint),
    routes=st.lists(ROUTES, max_size=3, unique_by=lambda one: one.route),
    own=histograms(OWN_BOUNDS_S),
    providers=st.lists(PROVIDERS, max_size=3, unique_by=lambda one: one.provider),
)


def in_order(figures: WorkerFigures) -> WorkerFigures:
    figures.endpoints.sort(key=lambda one: one.endpoint)
    figures.routes.sort(key=lambda one: one.route)
    figures.providers.sort(key=lambda one: one.provider)
    return figures


@given(WORKERS, WORKERS, WORKERS)
def test_the_order_and_the_grouping_do_not_matter(a: WorkerFigures, b: WorkerFigures, c: WorkerFigures) -> None:
    assert in_order(total((a, b, c))) == in_order(total((c, total((b, a)))))


@given(WORKERS)
def test_nothing_adds_nothing(figures: WorkerFigures) -> None:
    assert total((figures,)) == figures == total((nothing(), figures, nothing()))


def test_each_kind_is_added_to_its_own() -> None:
    def worker(route: str, status: int, count: int) -> WorkerFigures:
        figures = nothing()
        figures.routes.append(RouteFigures(route=route, requests={status: count}, replays={"closed": 1}))
        return figures

    added = total((worker("m", 200, 3), worker("m", 503, 1), worker("n", 200, 5), worker("m", 200, 2)))
    assert {route.route: route.requests for route in added.routes} == {"m": {200: 5, 503: 1}, "n": {200: 5}}
    assert [route.replays for route in added.routes] == [{"closed": 3}, {"closed": 1}]
