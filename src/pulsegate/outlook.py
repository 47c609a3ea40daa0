"""From a configuration to what is looked out for among hosted providers, and from there to the workers."""

from collections.abc import Callable

from pulsegate.config import Config
from pulsegate.control.link import NewOutlook
from pulsegate.control.outlook import Outlook
from pulsegate.control.pinging import Ping, Pinging
from pulsegate.control.ports import Clock
from pulsegate.control.readiness import CostView
from pulsegate.control.workforce import Workforce
from pulsegate.core.ids import PoolName

INFORM_S = 1.0  # how old what workers know of money may be


async def inform(outlook: Outlook, workforce: Workforce, clock: Clock) -> None:
    """Tell the workers what only we know of providers, money and others: at once after pings, else within a second."""

    def tell() -> None:
        workforce.inform(NewOutlook(pings=outlook.pings, cost=outlook.cost, apart=outlook.apart()))

    outlook.told = tell
    while True:
        tell()
        await clock.sleep(INFORM_S)


def open_outlook(config: Config, cost: Callable[[], CostView], ping: Ping, clock: Clock) -> tuple[Outlook, Pinging]:
    """What looks out for the providers of ``config``, and what pings them once it is run."""
    outlook = Outlook(cost)
    pinging = Pinging(outlook, ping, clock)
    outlook.ping = pinging.when_fresh
    look_out(config, outlook, pinging)
    return outlook, pinging


def look_out(config: Config, outlook: Outlook, pinging: Pinging) -> None:
    """Look out for these routes and providers from now on."""
    hosted = [(PoolName(model.name), model.provider) for model in config.models if model.provider is not None]
    outlook.configure(config.fleet().routes, config.provider_specs(), hosted)
    pinging.changed()
