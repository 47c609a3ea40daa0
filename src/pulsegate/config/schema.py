"""The whole file."""

from typing import Annotated

from pulsegate.config.coordination import CoordinationSection
from pulsegate.config.costs import CostsSection
from pulsegate.config.models import ModelSection
from pulsegate.config.policies import EjectionSection, ProbeSection
from pulsegate.config.section import Listed, Section
from pulsegate.config.services import AdminSection, GatewaySection, ProviderSection


class FileSection(Section):
    """All settings, by section. Every section may be left out."""

    gateway: GatewaySection = GatewaySection()
    admin: AdminSection = AdminSection()
    probe: ProbeSection = ProbeSection()
    ejection: EjectionSection = EjectionSection()
    models: Annotated[tuple[ModelSection, ...], Listed] = ()
    providers: Annotated[tuple[ProviderSection, ...], Listed] = ()
    costs: CostsSection = CostsSection()
    coordination: CoordinationSection = CoordinationSection()
