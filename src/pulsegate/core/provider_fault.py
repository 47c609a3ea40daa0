"""What a hosted provider's refusal amounts to. Decides the class, not what becomes of the provider or the request.

The same status means different things at different providers: Zhipu says 429 with code 1113 when an account is out of
money, DashScope says it with 400 and ``Arrearage``, OpenAI with 429 and ``insufficient_quota``; Groq and its like say
429 for a request that is too large for any key at any time. So the machine's codes come first, then the words, then
the status.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from pulsegate.core.refusal_words import BILLING_CODES, BILLING_WORDS, TOO_LARGE_WORDS, any_of


class ProviderFault(StrEnum):
    """Why a provider did not answer. Whose business it is: the operator's, everybody's for a while, or the user's."""

    BILLING = "billing"  # out of money: the operator must act; waiting does not help
    AUTH = "auth"  # the key is refused: the operator must act
    NOT_FOUND = "not_found"  # no such model or path: the operator's mapping is wrong
    RATE_LIMIT = "rate_limit"  # this key is too busy: it rests, others go on
    BUSY = "busy"  # the provider is too busy
    OUTAGE = "outage"  # 5xx, silence, broken answers
    TOO_LARGE = "too_large"  # the request is too large, for every key alike: the user's
    REQUEST = "request"  # any other fault of the request: the user's


USERS: Final = frozenset({ProviderFault.TOO_LARGE, ProviderFault.REQUEST})
"""Faults of the request: they say that the provider is alive, and another key or provider would say the same."""

_BUSY_WORDS: Final = any_of(r"overloaded|server (?:is )?busy|currently busy|at capacity|over capacity")
_BUSY_CODES: Final = frozenset({"1305", "engine_overloaded_error", "overloaded_error", "50505", "modelunavailable"})
_LIMIT_WORDS: Final = any_of(r"rate limit|too many requests|throttl")
_LIMIT_CODES: Final = frozenset({"1302", "1303", "1304", "1308", "1310", "rate_limit_exceeded", "rate_limit_error"})
_AUTH_CODES: Final = frozenset(
    {"1000", "1001", "1002", "1003", "1004", "1112", "invalid_api_key", "invalidapikey", "invalid_authentication_error"}
)
_NOT_FOUND_CODES: Final = frozenset({"1211", "model_not_found", "modelnotfound", "not_found_error"})
_FLAGGED: Final = any_of(r"moderation|flagged|inappropriate content|sensitive")

_AUTH_STATUS: Final = frozenset({401, 403, 407})
_NOT_FOUND_STATUS: Final = frozenset({404, 405, 410, 501})
_BUSY_STATUS: Final = frozenset({503, 529})
_NOT_THE_USER: Final = frozenset({408, 424, 425, 499})
_BAD_REQUEST: Final = 400
_TOO_LARGE_STATUS: Final = 413
_TOO_MANY: Final = 429
_FORBIDDEN: Final = 403
_PAYMENT: Final = 402
_SERVER: Final = 500


def provider_fault(status: int | None, codes: Collection[str], message: str) -> ProviderFault:
    """The class of a refusal.

    Args:
        status: of the answer, or the one that an error inside a 200 names; None if it names none.
        codes: the machine's words (``code``, ``type``), lower case.
        message: for people; it may quote the request, so under 400 its words prove nothing about the account.
    """
    if status == _TOO_LARGE_STATUS or (status in (_BAD_REQUEST, _TOO_MANY) and TOO_LARGE_WORDS.search(message)):
        return ProviderFault.TOO_LARGE
    if status == _PAYMENT or BILLING_CODES.intersection(codes):
        return ProviderFault.BILLING
    if status != _BAD_REQUEST and BILLING_WORDS.search(message):
        return ProviderFault.BILLING
    if status == _FORBIDDEN and _FLAGGED.search(message):  # OpenRouter: the input, not the key
        return ProviderFault.REQUEST
    return _by_code(status, frozenset(codes), message) or _by_status(status)


def _by_code(status: int | None, codes: frozenset[str], message: str) -> ProviderFault | None:
    if status in _AUTH_STATUS or _AUTH_CODES & codes:
        return ProviderFault.AUTH
    if status in _NOT_FOUND_STATUS or _NOT_FOUND_CODES & codes:
        return ProviderFault.NOT_FOUND
    if status not in (None, _TOO_MANY) and status < _SERVER:
        return None
    if _BUSY_CODES & codes or _BUSY_WORDS.search(message):
        return ProviderFault.BUSY
    if _LIMIT_CODES & codes or any(code.startswith("throttling") for code in codes) or _LIMIT_WORDS.search(message):
        return ProviderFault.RATE_LIMIT
    return None


def _by_status(status: int | None) -> ProviderFault:
    if status == _TOO_MANY:
        return ProviderFault.RATE_LIMIT
    if status in _BUSY_STATUS:
        return ProviderFault.BUSY
    if status is None or status < _BAD_REQUEST or status >= _SERVER or status in _NOT_THE_USER:
        return ProviderFault.OUTAGE
    return ProviderFault.REQUEST
