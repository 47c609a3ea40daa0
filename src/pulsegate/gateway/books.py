"""A worker's bookkeeping: one ledger line per attempt that reached an upstream, and leave to spend before a paid one.

Whether there is money is decided by the control process, which alone sees what all workers are about to spend. Should
it be gone, each worker goes on with the allowance that it was given last: no more is spent than was left then.
"""

import asyncio
from collections.abc import Callable
from decimal import Decimal
from math import ceil
from typing import Final, NamedTuple, Protocol

import msgspec

from pulsegate.control.ledger import Entry, Ledger
from pulsegate.control.link import LEDGER_CODE, LIMIT_CODE, Admission
from pulsegate.core.booking import Seen, Told, book, upper_estimate
from pulsegate.core.money import Currency, Price, Tokens
from pulsegate.core.spending import EntryKind
from pulsegate.gateway.attempt import Attempt
from pulsegate.gateway.errors import ApiError
from pulsegate.gateway.setup import LedgerSetup, PoolSetup
from pulsegate.gateway.usage import Usage

_REQUEST: Final = EntryKind.REQUEST
_CNY: Final = Currency.CNY.value
_NOTHING: Final = Decimal()
_RETRY_MAX_S: Final = 3600


class Teller(Protocol):
    """The way to the control process."""

    def may_pay(self, ask: int, provider: str, client: str | None, upper_cny: Decimal) -> None:
        """May this attempt cost so much? ``Books.answered`` is called later."""
        ...

    def paid(self, ask: int, op: str, attempt: int, cny: Decimal) -> None:
        """It is over."""
        ...

    def forgone(self, ask: int) -> None:
        """It never reached its upstream."""
        ...

    def ledger_state(self, problem: str | None) -> None:
        """The ledger cannot be written, or can be again."""
        ...


class Payer(Protocol):
    """The request that an attempt is made for."""

    def admitted(self, attempt: Attempt) -> None:
        """It may go ahead."""
        ...

    def refused(self, attempt: Attempt, error: ApiError) -> None:
        """It may not."""
        ...


class Account(NamedTuple):
    """Whose an attempt was. ``number`` counts the lines of one ``op``, from 1."""

    op: str
    number: int
    request_id: str
    client: str | None
    model: str


class _Ask(NamedTuple):
    payer: Payer
    attempt: Attempt
    upper_cny: Decimal


class _Limits(msgspec.Struct, frozen=True):
    """How long an answer may be, by any of its names, and how many there are to be."""

    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    max_output_tokens: int | None = None
    n: int | None = None


_LIMITS: Final = msgspec.json.Decoder(_Limits)


class Books:
    """One worker's. Attempts carry the number of their ask (``Attempt.ask``), 0 for those that need none."""

    __slots__ = (
        "_allowance",
        "_alone",
        "_last_ask",
        "_ledger",
        "_pending",
        "_setup",
        "_soon",
        "_teller",
        "_told",
        "_uppers",
        "_wall_of",
    )

    def __init__(
        self,
        setup: LedgerSetup,
        ledger: Ledger,
        teller: Teller,
        wall_of: Callable[[float], float],
        soon: Callable[..., object] | None = None,
    ) -> None:
        """Nothing is asked or written yet.

        Args:
            setup: how the ledger is kept.
            ledger: takes the lines.
            teller: takes questions and news for the control process.
            wall_of: makes seconds since the epoch of monotonic ones.
            soon: calls back in the next turn of the event loop; None: of the one that runs then.
        """
        self._setup = setup
        self._ledger = ledger
        self._teller = teller
        self._soon = soon
        self._wall_of = wall_of
        self._pending: dict[int, _Ask] = {}
        self._uppers: dict[int, Decimal] = {}
        self._last_ask = 0
        self._allowance: Decimal | None = None
        self._alone = False
        self._told: str | None = None

    @property
    def setup(self) -> LedgerSetup:
        """By which it was opened."""
        return self._setup

    # before an attempt

    def must_ask(self, pool: PoolSetup) -> bool:
        """Whether an attempt there needs leave."""
        setup = self._setup
        return pool.provider is not None and (setup.limited or (setup.refuses and self._ledger.trouble is not None))

    def ask(self, payer: Payer, attempt: Attempt, client: str | None, body: bytes) -> None:
        """Ask for leave; ``payer`` is answered in a later turn, unless the attempt is over by then."""
        self._last_ask = ask = attempt.ask = self._last_ask + 1
        upper_cny = _upper_cny(attempt.backend.pool.price, body)
        self._pending[ask] = _Ask(payer, attempt, upper_cny)
        if self._alone or not self._setup.limited:
            (self._soon or asyncio.get_running_loop().call_soon)(self._decide, ask)
        else:
            self._teller.may_pay(ask, attempt.backend.pool.provider or "", client, upper_cny)

    def answered(self, admission: Admission) -> None:
        """The control process has decided."""
        asked = self._pending.pop(admission.ask, None)
        if asked is None:
            return
        if admission.code is None:
            self._uppers[admission.ask] = asked.upper_cny
            asked.payer.admitted(asked.attempt)
            return
        asked.attempt.ask = 0
        asked.payer.refused(asked.attempt, _error(admission))

    def allow(self, cny: Decimal | None) -> None:
        """What may be spent here without the control process; None: as much as is asked for."""
        self._allowance = cny

    def alone(self) -> None:
        """The control process is gone."""
        self._alone = True
        for ask in list(self._pending):
            self._decide(ask)

    def _decide(self, ask: int) -> None:
        asked = self._pending.get(ask)
        if asked is None:
            return
        if self._setup.refuses and self._ledger.trouble is not None:
            problem = "Paid models are not served now: the ledger cannot be kept."
            self.answered(Admission(ask, LEDGER_CODE, problem))
        elif self._allowance is None or self._allowance >= asked.upper_cny:
            if self._allowance is not None:
                self._allowance -= asked.upper_cny
            self.answered(Admission(ask))
        else:
            self.answered(Admission(ask, LIMIT_CODE, "The cost limit is reached."))

    # after an attempt

    def forgo(self, attempt: Attempt) -> None:
        """An attempt ended before it was sent."""
        ask, attempt.ask = attempt.ask, 0
        if ask:
            self._pending.pop(ask, None)
            self._settle(ask, _NOTHING)
            self._teller.forgone(ask)

    def enter(self, account: Account, attempt: Attempt, usage: Usage | None, seen: Seen, now: float) -> None:
        """Write an attempt down that was sent and is over."""
        told = None if usage is None else Told(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
        booked = book(told, seen)
        tokens = booked.tokens
        backend = attempt.backend
        pool = backend.pool
        duration_s = now - attempt.started_at
        cost = None if pool.price is None else _cost(pool.price, tokens, attempt, duration_s)
        entry = Entry(
            ts=round(self._wall_of(now), 3),
            op=account.op,
            attempt=account.number,
            request_id=account.request_id,
            kind=_REQUEST,
            client=account.client,
            provider=pool.provider,
            model=account.model,
            endpoint=backend.seat.id,
            status=attempt.status,
            prompt_tokens=tokens.prompt,
            cached_tokens=tokens.cached,
            completion_tokens=tokens.completion,
            cost=cost,
            currency=None if cost is None else _CNY,
            price_version=None if pool.price is None else pool.price.version,
            usage=booked.usage,
            ttft_ms=None if attempt.ttft_s is None else round(attempt.ttft_s * 1000, 1),
            duration_ms=round(duration_s * 1000, 1),
        )
        if not self._ledger.book(entry):
            self._look()
        if attempt.ask:
            ask, attempt.ask = attempt.ask, 0
            self._settle(ask, cost or _NOTHING)
            self._teller.paid(ask, account.op, account.number, cost or _NOTHING)

    def tend(self) -> None:
        """About every second."""
        self._ledger.tend()
        self._look()

    def close(self) -> None:
        """No more lines come."""
        self._ledger.close()

    def _settle(self, ask: int, cny: Decimal) -> None:
        upper_cny = self._uppers.pop(ask, None)
        if upper_cny is not None and self._alone and self._allowance is not None:
            self._allowance += upper_cny - cny

    def _look(self) -> None:
        trouble = self._ledger.trouble
        if trouble != self._told:
            self._told = trouble
            self._teller.ledger_state(trouble)


def _upper_cny(price: Price | None, body: bytes) -> Decimal:
    if price is None or not price.rates:
        return _NOTHING
    try:
        limits = _LIMITS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        limits = _Limits()
    longest = limits.max_completion_tokens or limits.max_output_tokens or limits.max_tokens
    return price.of_tokens(upper_estimate(len(body), longest, limits.n or 1))


def _cost(price: Price, tokens: Tokens, attempt: Attempt, duration_s: float) -> Decimal:
    if price.rates:
        return price.of_tokens(tokens)
    shared_by = Decimal(max(2, attempt.beside + attempt.held_at_end)) / 2
    return price.of_time(Decimal(round(duration_s * 1000)), shared_by).quantize(Decimal("1e-12"))


def _error(admission: Admission) -> ApiError:
    status = 402 if admission.code == LIMIT_CODE else 503
    wait_s = admission.reopens_in_s
    retry_after_s = 5 if status == 503 else None if wait_s is None else min(_RETRY_MAX_S, ceil(wait_s))  # noqa: PLR2004
    return ApiError(
        status=status, code=admission.code or LIMIT_CODE, message=admission.problem, retry_after_s=retry_after_s
    )
