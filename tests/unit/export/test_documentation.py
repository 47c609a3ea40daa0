"""docs/metrics.md names every series that there is, and no other."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from pulsegate.export.endpoint_series import EndpointSeries
from pulsegate.export.metrics import Metrics
from pulsegate.export.provider_series import provider_series
from pulsegate.export.traffic import TrafficSeries
from support.samples import fleet, pool, spec

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_every_metric_of_the_prober_is_documented() -> None:
    metrics = Metrics("0")
    metrics.watching(fleet(pool(spec())))
    page = (metrics.render() + EndpointSeries().text() + provider_series([])).decode()
    families = {
        family.name + ("_total" if family.type == "counter" else "") for family in text_string_to_metric_families(page)
    }
    documented = set(re.findall(r"^\| `(pulsegate_\w+)` \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE))
    assert families
    assert families - documented == set()


def test_every_metric_of_the_data_plane_is_documented() -> None:
    registry = CollectorRegistry()
    families = {
        family.name + ("_total" if family.type == "counter" else "") for family in TrafficSeries(registry).collect()
    }
    documented = set(re.findall(r"`(pulsegate_\w+)`", DOCUMENT.read_text(encoding="utf-8")))
    assert families
    assert families - documented == set()
