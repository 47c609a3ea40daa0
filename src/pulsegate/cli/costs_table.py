"""What was spent, for terminals: the sum, what is left, and a bar for each part of it."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pulsegate.core.spending import By, Sums
from pulsegate.status.costs import Costs

_FULL: Final = "█"
_PARTS: Final = " ▏▎▍▌▋▊▉"
_WARN_AT: Final = Decimal("0.8")
_MAX_BAR: Final = 40
_MIN_BAR: Final = 8
_FIGURES_WIDTH: Final = 58  # of all columns but name and bar


def table(costs: Costs, by: By | None, *, width: int) -> Group:
    """The whole picture, or that of one grouping."""
    wanted = (By.PROVIDER, By.MODEL, By.CLIENT) if by is None else (by,)
    parts: list[RenderableType] = list(_summary(costs, width))
    for one in wanted:
        groups: Mapping[str, Sums] = getattr(costs, f"by_{one.value}")
        if groups and not (one is By.CLIENT and by is None and set(groups) == {"-"}):
            parts.append(_grouped(one, groups, width))
    return Group(*parts)


def _summary(costs: Costs, width: int) -> Iterator[Text]:
    period = "all time" if costs.window == "total" else costs.period
    yield Text.assemble(
        (f"{money(costs.total_cny)} CNY", "bold"), f" for {costs.calls:,} calls, {period}", *_limit(costs, width)
    )
    if costs.unpriced:
        yield Text(f"{costs.unpriced:,} attempts have no known price and are not in this sum", style="bold yellow")
    for name, amounts in (("self-hosted models", costs.self_hosted), ("probes", costs.probes)):
        if amounts.cny or (amounts.attempts and name == "probes"):
            yield Text(f"apart: {name} {money(amounts.cny)} CNY in {amounts.attempts:,} attempts", style="dim")


def _limit(costs: Costs, width: int) -> Iterator[str | tuple[str, str]]:
    if costs.limit_cny is None or costs.remaining_cny is None:
        return
    share = costs.total_cny / costs.limit_cny if costs.limit_cny else Decimal(1)
    style = "bold red" if share >= 1 else "yellow" if share >= _WARN_AT else "green"
    yield f"\n{bar(share, min(_MAX_BAR, width // 2))} ", style
    yield f"{share:.0%} of {money(costs.limit_cny)}, {money(costs.remaining_cny)} left", style


def _grouped(by: By, groups: Mapping[str, Sums], width: int) -> Table:
    grid = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", title_justify="left")
    grid.add_column(by.value.upper(), no_wrap=True, overflow="ellipsis", max_width=max(12, width // 4))
    for name in ("CNY", "CALLS", "IN", "CACHED", "OUT"):
        grid.add_column(name, justify="right", no_wrap=True)
    room = width - max(12, min(width // 4, max(map(len, groups)))) - _FIGURES_WIDTH
    bars = min(_MAX_BAR, room) if room >= _MIN_BAR else 0
    grid.add_column("", no_wrap=True)
    most = max((amounts.cny for amounts in groups.values()), default=Decimal())
    for name, amounts in groups.items():
        drawn = Text(bar(amounts.cny / most if most else Decimal(), bars), style="cyan")
        if amounts.unpriced:
            drawn.append(f" {amounts.unpriced:,} unpriced", style="yellow")
        grid.add_row(
            name,
            money(amounts.cny),
            f"{amounts.calls:,}",
            count(amounts.prompt_tokens),
            count(amounts.cached_tokens),
            count(amounts.completion_tokens),
            drawn,
        )
    return grid


def bar(share: Decimal, cells: int) -> str:
    """A bar of up to so many cells, exact to an eighth of one; something is never shown as nothing."""
    eighths = int(min(max(share, Decimal()), Decimal(1)) * cells * len(_PARTS))
    if share > 0 and cells:
        eighths = max(eighths, 1)
    whole, part = divmod(eighths, len(_PARTS))
    return _FULL * whole + (_PARTS[part] if part else "")


def money(amount: Decimal) -> str:
    """To the hundredth; smaller amounts to two digits that say something."""
    if amount == 0 or abs(amount) >= Decimal("0.1"):
        return f"{amount:,.2f}"
    return f"{amount:.{1 - amount.adjusted()}f}"


def count(tokens: int) -> str:
    """``1.2M``, ``340k``."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if tokens >= size:
            return f"{tokens / size:.3g}{unit}" if tokens < 1000 * size else f"{tokens // size:,}{unit}"
    return str(tokens)
