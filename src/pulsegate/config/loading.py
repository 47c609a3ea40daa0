"""From a file to a configuration, or to all its problems."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from pulsegate.config import combinations, coordination_rules, document, explain, names, rules, thresholds
from pulsegate.config.coordination import CoordinationSection
from pulsegate.config.costs import CostsSection
from pulsegate.config.errors import ConfigErrors, Problem
from pulsegate.config.models import ModelSection
from pulsegate.config.names import Resolve
from pulsegate.config.policies import EJECTION, PROBE
from pulsegate.config.schema import FileSection
from pulsegate.config.services import AdminSection, GatewaySection, ProviderSection
from pulsegate.core.fleet import EjectionPolicy, Fleet, PoolSpec, ProbePolicy, ProviderSpec, RouteSpec
from pulsegate.core.ids import PoolName

MAX_FILE_BYTES = 16 * 2**20
_RULES = (combinations.problems, rules.problems, thresholds.problems, coordination_rules.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One valid file. Secrets are pydantic's ``SecretStr`` and do not show in any repr."""

    path: Path
    gateway: GatewaySection
    admin: AdminSection
    probe: ProbePolicy
    ejection: EjectionPolicy
    models: tuple[ModelSection, ...]
    providers: tuple[ProviderSection, ...]
    costs: CostsSection
    coordination: CoordinationSection

    def fleet(self) -> Fleet:
        """The pools that are probed, and the routes over these and over the models of providers.

        Fallbacks of fallbacks follow in depth-first order, each pool once.
        """
        pools = tuple(self._pool(model) for model in self.models if model.endpoints)
        by_name = {model.name: model for model in self.models}
        routes = tuple(RouteSpec(name=model.name, tiers=_tiers(model, by_name)) for model in self.models)
        return Fleet(pools=pools, routes=routes)

    def provider(self, name: str) -> ProviderSection:
        """The provider of that name, which exists."""
        return next(provider for provider in self.providers if provider.name == name)

    def provider_specs(self) -> tuple[ProviderSpec, ...]:
        """The providers, to be pinged."""
        return tuple(
            ProviderSpec(
                name=provider.name,
                keys=provider.keys(),
                configured=provider.configured,
                ping_interval_s=provider.ping_interval_s,
            )
            for provider in self.providers
        )

    def _pool(self, model: ModelSection) -> PoolSpec:
        name = PoolName(model.name)
        probe = model.probe.over(self.probe)
        if model.expect is not None:
            probe = replace(probe, expect=model.expect)
        endpoints = tuple(spec for endpoint in model.endpoints for spec in endpoint.specs(name))
        return PoolSpec(name=name, endpoints=endpoints, probe=probe, ejection=model.ejection.over(self.ejection))


def _tiers(model: ModelSection, by_name: Mapping[str, ModelSection]) -> tuple[PoolName, ...]:
    tiers: dict[str, None] = {}
    pending = [model.name]
    while pending:
        name = pending.pop()
        if name not in tiers:
            tiers[name] = None
            pending.extend(reversed(by_name[name].fallbacks))
    return tuple(PoolName(name) for name in tiers)


def load(path: Path, environ: Mapping[str, str], resolve: Resolve | None = None) -> Config:
    """Reads, checks and builds.

    Raises:
        ConfigErrors: with every problem of the file.
    """
    return parse(_read(path), path, environ, resolve)


def parse(raw: bytes, path: Path, environ: Mapping[str, str], resolve: Resolve | None = None) -> Config:
    """Checks and builds from a file's bytes; ``path`` is for messages and for the files that the settings name.

    With ``resolve``, host names that are not found are problems too.

    Raises:
        ConfigErrors: with every problem of the file.
    """
    parsed = document.parse(raw, str(path), environ, explain.all_keys())
    found: list[Problem] = [*parsed.problems, *(problem for problems in _RULES for problem in problems(parsed))]
    try:
        settings = FileSection.model_validate(parsed.data, context={"directory": path.parent})
    except ValidationError as exc:
        raise ConfigErrors([*found, *explain.problems(exc, parsed)]) from None
    if resolve is not None:
        found += names.problems(parsed, settings.models, settings.providers, resolve)
    if found:
        raise ConfigErrors(found)
    return Config(
        path=path,
        gateway=settings.gateway,
        admin=settings.admin,
        probe=settings.probe.over(PROBE),
        ejection=settings.ejection.over(EJECTION),
        models=settings.models,
        providers=settings.providers,
        costs=settings.costs,
        coordination=settings.coordination,
    )


def _read(path: Path) -> bytes:
    def refuse(message: str, fix: str | None = None) -> ConfigErrors:
        return ConfigErrors([Problem(file=str(path), line=0, column=0, key="", message=message, fix=fix)])

    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise refuse("does not exist", "name the file: pulsegate check FILE") from None
    except OSError as exc:
        raise refuse(f"cannot be read: {exc.strerror}") from exc
    if len(raw) > MAX_FILE_BYTES:
        raise refuse(f"is larger than {MAX_FILE_BYTES // 2**20} MiB")
    return raw
