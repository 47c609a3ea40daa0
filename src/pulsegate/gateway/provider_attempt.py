"""An attempt at a hosted provider: listens to what a refusal says, and tells the provider's watch how it went."""

from pulsegate.core.provider_fault import ProviderFault
from pulsegate.core.rescue import FailureKind
from pulsegate.gateway.answer_head import AnswerHead
from pulsegate.gateway.attempt import ERROR_BODY_BYTES, Attempt, Errand
from pulsegate.gateway.backend import Backend
from pulsegate.gateway.gate import Broken, Gate, Verdict
from pulsegate.gateway.provider_answer import fault_of, read_refusal, verdict_of
from pulsegate.gateway.provider_watch import ProviderWatch
from pulsegate.gateway.upstream import UpstreamConnection

_REFUSED_FROM = 300
_OK = "ok"
_CANCELLED = "cancelled"


class ProviderAttempt(Attempt):
    """Like any other, but a status alone decides nothing: the body of a refusal is waited for."""

    __slots__ = ("_answered", "_fault", "_refused", "_trial", "_watch")

    def __init__(
        self, errand: Errand, number: int, backend: Backend, watch: ProviderWatch, *, now: float, held_limit: int
    ) -> None:
        super().__init__(errand, number, backend, now=now, held_limit=held_limit)
        self._watch = watch
        self._answered = False
        self._fault: ProviderFault | None = None
        self._refused = 0  # the status of a refusal
        self._trial = False

    def claim(self) -> None:
        """Take the place. If it is to be tried nobody else may, also while we ask whether this can be paid for."""
        self._trial = self._watch.begin(self.backend.seat.id)

    def _open(self, head: AnswerHead) -> Verdict | None:
        if head.status < _REFUSED_FROM:
            return super()._open(head)
        super()._open(head)  # notes what there is to note
        self._refused = head.status
        self.retry_after_s = head.retry_after_s
        self._held_limit = ERROR_BODY_BYTES
        return None

    def _judge_whole(self, conn: UpstreamConnection) -> Verdict:
        if not self._refused:
            return super()._judge_whole(conn)
        self._size += sum(map(len, conn.pieces))
        if not conn.complete and self._size <= self._held_limit:
            return Gate.WAIT
        self.whole = conn.complete
        self._fault, detail = read_refusal(self._refused, b"".join(self.payload))
        return verdict_of(self._fault, detail)

    def _settle(self, verdict: Verdict) -> None:
        if isinstance(verdict, Broken):
            if verdict.said and self._fault is None:
                self._fault, detail = read_refusal(200, verdict.said)
                verdict = verdict_of(self._fault, detail)
            if isinstance(verdict, Broken):
                self._fail(verdict.kind, verdict.detail)
                return
        self._answered = True
        ttft_s = self._watch.since(self.started_at) if self.stream else None
        self._watch.came_to(self._fault or _OK)
        self._watch.served(self.backend.seat.id, trial=self._trial, ttft_s=ttft_s)
        super()._settle(verdict)

    def _fail(self, kind: FailureKind, detail: str) -> None:
        if self._refused and self._fault is None:  # it broke off within its refusal
            self._fault, detail = read_refusal(self._refused, b"".join(self.payload))
        fault = fault_of(kind) if self._fault is None else self._fault
        if fault is not None:
            self._watch.came_to(fault)
        self._watch.failed(self.backend.seat.id, fault, trial=self._trial, retry_after_s=self.retry_after_s)
        super()._fail(kind, detail)

    def cancel(self) -> None:
        """Close the connection at once; given up after its time, it counts against the provider."""
        if not self._over and not self._answered:
            pool = self.backend.pool
            patience_s = pool.ttft_deadline_s if self._errand.streams else pool.answer_deadline_s
            late = self._seated and self._watch.since(self.started_at) >= patience_s
            fault = ProviderFault.OUTAGE if late else None
            if self._seated:
                self._watch.came_to(fault or _CANCELLED)
            self._watch.failed(self.backend.seat.id, fault, trial=self._trial)
        super().cancel()

    def spoilt(self) -> None:
        """After its first token it was cut, fell silent, or ended with an error."""
        self._watch.failed(self.backend.seat.id, ProviderFault.OUTAGE, trial=False)


def attempt_at(backend: Backend, errand: Errand, number: int, *, now: float, held_limit: int) -> Attempt:
    """An attempt of the kind that this endpoint needs; its place is taken."""
    watch = backend.watch
    if watch is None:
        return Attempt(errand, number, backend, now=now, held_limit=held_limit)
    attempt = ProviderAttempt(errand, number, backend, watch, now=now, held_limit=held_limit)
    attempt.claim()
    return attempt
