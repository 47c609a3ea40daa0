"""Opens endpoints: implements the port ``EngineFactory``."""

from pulsegate.core.fleet import EndpointSpec
from pulsegate.engines.client import EngineClient
from pulsegate.engines.wire import Wire, parse_target


def open_engine(spec: EndpointSpec) -> EngineClient:
    """An engine for this endpoint; nothing is sent before its first probe.

    Raises:
        ValueError: the address cannot be read; says what is wrong with it.
    """
    return EngineClient(spec, Wire(parse_target(spec)))
