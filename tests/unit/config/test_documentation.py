"""docs/configuration.md names every setting, with the default that the schema has, and its examples are valid."""

import re
from pathlib import Path

import pytest
from pydantic_core import PydanticUndefined

from pulsegate.config import load
from pulsegate.config.coordination import CoordinationSection, CoordinationTls
from pulsegate.config.costs import CostsSection, PriceSection
from pulsegate.config.explain import fields, keys_at
from pulsegate.config.models import EndpointSection, ModelSection
from pulsegate.config.policies import EjectionSection, ProbeSection
from pulsegate.config.schema import FileSection
from pulsegate.config.section import ServerTls
from pulsegate.config.services import AdminSection, GatewaySection, ListenTls, ProviderSection
from pulsegate.config.units import show_bytes, show_seconds

TEXT = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
SECTIONS = {
    "gateway": GatewaySection,
    "gateway.tls": ListenTls,
    "admin": AdminSection,
    "probe": ProbeSection,
    "ejection": EjectionSection,
    "models": ModelSection,
    "models[].endpoints[]": EndpointSection,
    "models[].endpoints[].tls": ServerTls,
    "models[].price": PriceSection,
    "providers": ProviderSection,
    "costs": CostsSection,
    "coordination": CoordinationSection,
    "coordination.tls": CoordinationTls,
}


def documented(heading: str) -> dict[str, tuple[str, str]]:
    part = re.search(rf"^##+ {re.escape(heading)}$(.*?)(?=^##+ |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert part is not None, f"no heading {heading}"
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| .+ \|$", part[1], re.MULTILINE)
    return {key: (unit, default.strip("`")) for key, unit, default in rows}


def written(unit: str, default: object) -> str:  # noqa: PLR0911 - one line per kind
    match default:
        case _ if default is PydanticUndefined:
            return "required"
        case None | () | {} | ProbeSection() | EjectionSection():
            return "-"
        case bool():
            return {"absolute, auto": ("absolute", "auto")}.get(unit, ("false", "true"))[default]
        case float() if unit == "share":
            return f"{default:.0%}"
        case int() if unit == "share":
            return f"{default}%"
        case float():
            return show_seconds(default)
        case int() if unit == "size":
            return show_bytes(default)
        case _:
            return str(default)


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_setting_is_documented_with_its_default(heading):
    table = documented(heading)
    schema = dict(fields(SECTIONS[heading]))
    assert list(table) == list(schema)
    for key, info in schema.items():
        unit, default = table[key]
        value = info.get_default(call_default_factory=True)
        assert default == written(unit, value), key


def test_no_section_is_forgotten():
    assert [name for name, _ in fields(FileSection)] == [name for name in SECTIONS if name.isalpha()]
    assert keys_at(("models", 0, "endpoints", 1, "tls")) == [name for name, _ in fields(ServerTls)]


@pytest.mark.parametrize("example", re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL))
def test_examples_are_valid(example, tmp_path):
    path = tmp_path / "pulsegate.yaml"
    path.write_text(example)
    assert load(path, {"DEEPSEEK_API_KEY": "sk-1"}).fleet().routes
