"""The attempts of one request, each written down as it ends: what is known of it, by how it ended."""

from collections.abc import Callable
from typing import Final

from pulsegate.core.booking import Seen
from pulsegate.core.rescue import FailureKind
from pulsegate.gateway.attempt import Attempt
from pulsegate.gateway.books import Account, Books, Payer
from pulsegate.gateway.intake import Incoming
from pulsegate.gateway.usage import Usage

_FIRST_ERROR: Final = 400


class CallBooks:
    """One request's. Its attempts are numbered as they end, so that the first line of each has number 1."""

    __slots__ = ("_books", "_client", "_incoming", "_lines", "_model", "_now", "_op")

    def __init__(self, books: Books, incoming: Incoming, model: str, op: bytes, now: Callable[[], float]) -> None:
        self._books = books
        self._incoming = incoming
        self._model = model
        self._op = op
        self._now = now
        self._lines = 0
        self._client = None if incoming.key is None else incoming.key.name

    def begin(self, payer: Payer, attempt: Attempt) -> None:
        """Send an attempt, or ask first whether it can be paid for."""
        books = self._books
        if books.must_ask(attempt.backend.pool):
            books.ask(payer, attempt, self._client, self._incoming.body)
        else:
            payer.admitted(attempt)

    def given_up(self, attempt: Attempt) -> None:
        """It was cancelled: somebody else answers, or nobody waits any more."""
        self._enter(attempt, None, Seen(len(self._incoming.body), whole=False))

    def failed(self, attempt: Attempt, kind: FailureKind) -> None:
        """It brought no token. Who answers with an error has done no work."""
        status = attempt.status
        refused = status is not None and (status >= _FIRST_ERROR or kind is FailureKind.SERVER)
        self._enter(attempt, None, Seen(len(self._incoming.body), whole=False, refused=refused))

    def answered(self, attempt: Attempt, status: int, answer_bytes: int) -> None:
        """It brought a whole answer without streaming, or an error that is the user's own."""
        seen = Seen(len(self._incoming.body), answer_bytes=answer_bytes, refused=status >= _FIRST_ERROR)
        self._enter(attempt, attempt.usage, seen)

    def relayed(self, attempt: Attempt, usage: Usage | None, events: int, *, whole: bool) -> None:
        """Its answer was passed on as it came: to its end, or as far as it got."""
        self._enter(attempt, usage, Seen(len(self._incoming.body), events, whole=whole))

    def _enter(self, attempt: Attempt, usage: Usage | None, seen: Seen) -> None:
        if not attempt.sent:
            self._books.forgo(attempt)
            return
        self._lines += 1
        request_id = self._incoming.request_id.decode("latin-1")
        account = Account(self._op.decode(), self._lines, request_id, self._client, self._model)
        self._books.enter(account, attempt, usage, seen, self._now())
