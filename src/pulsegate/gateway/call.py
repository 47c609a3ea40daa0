"""One request from its body's arrival to its line in the access log: carries out what the rescue machine decides."""

from math import inf
from typing import assert_never

from pulsegate.control.link import LIMIT_CODE
from pulsegate.core.attempts import NO_EVIDENCE
from pulsegate.core.rescue import POLL_S, Action, Answer, Cancel, FailureKind, Park, Rescue, Start
from pulsegate.core.rescue import Relay as RelayAction
from pulsegate.core.routing import Lane, Seat
from pulsegate.gateway.access import access_line, trouble_tail, usage_tail
from pulsegate.gateway.affinity import affinity_of
from pulsegate.gateway.attempt import Attempt
from pulsegate.gateway.backend import Backend
from pulsegate.gateway.call_books import CallBooks
from pulsegate.gateway.client import Client
from pulsegate.gateway.context import Context
from pulsegate.gateway.delivery import Delivery, answer_head
from pulsegate.gateway.errors import INTERNAL, ApiError
from pulsegate.gateway.intake import Incoming
from pulsegate.gateway.outgoing import Bodies, asks_usage, upstream_request
from pulsegate.gateway.provider_attempt import attempt_at
from pulsegate.gateway.request import Routing
from pulsegate.gateway.roster import Route
from pulsegate.gateway.usage import Usage

CLIENT_GONE = 499  # what the log says of a client that left; nobody is sent this

OVERTAKEN_AFTER_S = 1.0
"""How long a stream's new connection may be silent before it matters who is served meanwhile."""


class Call:
    """One request. ``due_at`` is when the sweeper should look at it next."""

    __slots__ = (
        "_attempts",
        "_bodies",
        "_books",
        "_client",
        "_context",
        "_delivery",
        "_endpoint",
        "_lane",
        "_look_at",
        "_own_s",
        "_rescue",
        "_route",
        "_routing",
        "_trouble",
        "_ttft_s",
        "_unpaid",
        "due_at",
        "incoming",
        "over",
        "started_at",
    )

    def __init__(
        self,
        context: Context,
        client: Client,
        *,
        incoming: Incoming,
        routing: Routing,
        route: Route,
        began_at: float,
    ) -> None:
        self._context = context
        self._client = client
        self.incoming = incoming
        self._routing = routing
        self._route = route
        self._attempts: dict[int, Attempt] = {}
        self._bodies: Bodies = {}
        self._delivery: Delivery | None = None
        self._own_s = 0.0
        self._endpoint: bytes | None = None
        self._trouble: str | None = None
        self._ttft_s: float | None = None
        books = context.books
        self._books = (
            None if books is None else CallBooks(books, incoming, route.setup.name, context.new_id(), context.now)
        )
        self._unpaid: ApiError | None = None
        self.started_at = began_at
        self._look_at = inf  # when to see whether an attempt is overtaken
        self.over = False
        head, key = incoming.head, incoming.key
        lane = head.lane or (Lane.NORMAL if key is None else key.lane)
        self._lane = lane
        self._rescue = Rescue(
            route.streams if routing.stream else route.wholes,
            route.current_plan,
            lane,
            context.budget,
            context.random,
            affinity_of(context, head, routing) if head.affinity or context.setup.affinity_user else None,
        )
        self.due_at = began_at

    def begin(self) -> None:
        """Start the first attempt."""
        context = self._context
        context.live.add(self)
        context.budget.in_flight += 1
        key = self.incoming.key
        if key is not None:
            key.inflight += 1
        self._do(self._rescue.begin(self.started_at))
        self._own_s = context.now() - self.started_at

    @property
    def attempts(self) -> int:
        """How many attempts were started."""
        return self._rescue.attempts

    # decisions carried out

    def _do(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            match action:
                case Start():
                    self._start(action.attempt, action.seat)
                case RelayAction():
                    self._deliver(self._attempts[action.attempt])
                case Cancel():
                    self._give_up(self._attempts.pop(action.attempt))
                case Answer():
                    self._refuse(action)
                case Park():
                    self._context.parked.append(self)
                case _:
                    assert_never(action)
        if not self.over and self._delivery is None:
            self.due_at = min(self._rescue.due_at, self._look_at)

    def _start(self, number: int, seat: Seat) -> None:
        context = self._context
        if number:
            self._route.counters.replayed(str(self._rescue.cause or ""))
        backend = context.roster.backends[seat.id]
        attempt = attempt_at(
            backend,
            self,
            number,
            now=context.now() if number else self.started_at,
            held_limit=context.setup.limits.held_bytes,
        )
        self._attempts[number] = attempt
        self._endpoint = attempt.backend.json_id
        if self._books is None:
            self.admitted(attempt)
        else:
            self._books.begin(self, attempt)

    def admitted(self, attempt: Attempt) -> None:
        """Payer: it may be sent."""
        attempt.start()
        if self._routing.stream and attempt.unheard:
            self._look_at = attempt.started_at + OVERTAKEN_AFTER_S
            self.due_at = min(self.due_at, self._look_at)

    def refused(self, attempt: Attempt, error: ApiError) -> None:
        """Payer: there is none."""
        self._unpaid = error
        if attempt.number in self._attempts:
            self.attempt_failed(attempt, FailureKind.COST, error.code)

    def _give_up(self, attempt: Attempt) -> None:
        """Somebody else answers, or nobody waits any more."""
        attempt.cancel()
        if self._books is not None:
            self._books.given_up(attempt)

    @property
    def streams(self) -> bool:
        """Errand: whether a stream was asked for."""
        return self._routing.stream is True

    def request_for(self, backend: Backend) -> tuple[bytes, bytes]:
        """Errand: head and body for this endpoint."""
        return upstream_request(backend, self.incoming, self._routing, self._bodies)

    def attempt_answered(self, attempt: Attempt) -> None:
        """Errand: an attempt's gate is open."""
        now = self._context.now()
        counters = attempt.backend.counters
        counters.ttft.add(now - attempt.started_at)
        counters.sign_at = now
        counters.answered_from = attempt.started_at
        self._ttft_s = now - self.started_at
        if attempt.stream:
            attempt.ttft_s = now - attempt.started_at
        self._do(self._rescue.answered(attempt.number, now))
        self._free_budget()
        self._own_s += self._context.now() - now

    def attempt_failed(self, attempt: Attempt, kind: FailureKind, detail: str) -> None:
        """Errand: an attempt is over."""
        self._attempts.pop(attempt.number, None)
        self._trouble = detail
        if self._books is not None:
            self._books.failed(attempt, kind)
        attempt.backend.counters.failed(kind, evidence=kind not in NO_EVIDENCE)
        self._context.alarm()
        self._do(self._rescue.failed(attempt.number, kind, self._context.now(), attempt.retry_after_s))
        self._free_budget()

    def _free_budget(self) -> None:
        if self._rescue.attempts > 1 and self._context.parked:
            self._context.pump()

    def _deliver(self, attempt: Attempt) -> None:
        """An attempt has won: its answer goes to the client."""
        self._endpoint = attempt.backend.json_id
        self._attempts.clear()
        if attempt.whole:
            self._deliver_whole(attempt)
            return
        context = self._context
        now = context.now()
        delivery = Delivery(self, self._client, attempt, context)
        self._delivery = delivery
        self.due_at = now + attempt.backend.pool.itl_deadline_s
        delivery.begin(
            now,
            attempts=self._rescue.attempts,
            hide_usage=asks_usage(attempt.backend, self.incoming, self._routing),
            stream=attempt.stream,
        )

    def _deliver_whole(self, attempt: Attempt) -> None:
        """The answer is here: head and body go out in one write."""
        conn, payload = attempt.conn, attempt.payload
        if conn is None or conn.head is None:
            return
        head = answer_head(self._context, self.incoming, attempt, conn.head, self._rescue.attempts)
        body = payload[0] if len(payload) == 1 else b"".join(payload)
        status, client = conn.head.status, self._client
        attempt.backend.counters.tokens += 1
        attempt.leave()
        client.write(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        if self._books is not None:
            self._books.answered(attempt, status, len(body))
        self.end(status, usage=attempt.usage)
        client.call_over(keep_alive=True)

    def _refuse(self, answer: Answer) -> None:
        unpaid = self._unpaid if answer.code == LIMIT_CODE else None
        error = unpaid or ApiError(
            status=answer.status, code=answer.code, message=answer.message, retry_after_s=answer.retry_after_s
        )
        self.end(error.status, code=error.code)
        self._client.refuse(error, self.incoming)

    # what happens to it

    def due(self, now: float) -> None:
        """Live: ``due_at`` has come."""
        if self.over:
            return
        delivery = self._delivery
        if delivery is not None:
            self.due_at = delivery.watch(now)
            return
        if now >= self._look_at:
            self._look_at = now + POLL_S
            self._do(self._overtaken(now))
        self._do(self._rescue.deadline(now))
        self._free_budget()

    def _overtaken(self, now: float) -> tuple[Action, ...]:
        """Hedge a stream on a new, deaf connection if later ones are served there or none is; else it queues."""
        for attempt in self._attempts.values():
            counters, since = attempt.backend.counters, attempt.started_at
            if (
                attempt.backend.pool.provider is None
                and attempt.unheard
                and (counters.answered_from > since or counters.sign_at < now - OVERTAKEN_AFTER_S)
            ):
                return self._rescue.endpoint_suspect(attempt.backend.seat, now)
        return ()

    def budget_freed(self, now: float) -> None:
        """Live: the retry budget may have room."""
        if not self.over and self._delivery is None:
            self._do(self._rescue.budget_freed(now))

    def endpoints_changed(self, ejected: list[Seat], suspect: list[Seat], now: float) -> None:
        """A snapshot ejected or suspects endpoints; matters while this request waits for its first token."""
        if self._delivery is not None:
            return
        waits_at = {attempt.backend.seat for attempt in self._attempts.values()}
        for seat in ejected:
            if seat in waits_at and not self.over:
                self._do(self._rescue.endpoint_ejected(seat, now))
        for seat in suspect:
            if seat in waits_at and not self.over and self._delivery is None:
                self._do(self._rescue.endpoint_suspect(seat, now))
        self._free_budget()

    def client_paused(self, *, paused: bool) -> None:
        """The client reads slower than the endpoint sends, or keeps up again."""
        if self._delivery is not None:
            self._delivery.client_paused(paused=paused)

    def client_gone(self) -> None:
        """The client left: everything upstream is cancelled at once."""
        if self.over:
            return
        if self._delivery is not None:
            self._delivery.cancel()
            self.end(CLIENT_GONE, ended="client_gone", usage=self._delivery.usage())
        else:
            self._do(self._rescue.client_gone())
            self._free_budget()
            self.end(CLIENT_GONE, ended="client_gone")

    def crash(self) -> None:
        """Live: our own code failed. The client's connection is closed: what it was sent so far is unknown."""
        for attempt in self._attempts.values():
            self._give_up(attempt)
        self._attempts.clear()
        if self._delivery is not None:
            self._delivery.cancel()
        self.end(INTERNAL.status, code=INTERNAL.code)
        self._client.call_over(keep_alive=False)

    def end(
        self, status: int, *, code: str | None = None, ended: str | None = None, usage: Usage | None = None
    ) -> None:
        """The request is over: counts it, logs it, frees what it held. Once."""
        if self.over:
            return
        self.over = True
        delivery, self._delivery = self._delivery, None
        if delivery is not None:
            if self._books is not None:
                whole = code is None and ended is None
                self._books.relayed(delivery.attempt, usage, delivery.events, whole=whole)
            delivery.forget()
        context = self._context
        context.live.discard(self)
        context.budget.in_flight -= 1
        key = self.incoming.key
        if key is not None:
            key.inflight -= 1
        counters, attempts = self._route.counters, self._rescue.attempts
        counters.ended(status)
        context.counters.own.add(self._own_s)
        answered = code is None and ended is None and status < 400  # noqa: PLR2004 - an error uses nothing
        if answered:
            counters.used(usage)
            if attempts > 1:
                counters.rescued += 1
        if context.access.wanted:
            tail = usage_tail(usage, missing=answered and usage is None)
            if not answered or attempts > 1:
                cause = self._rescue.cause
                tail += trouble_tail(None if cause is None else str(cause), self._trouble, code, ended)
            self._log(status, tail)

    def _log(self, status: int, tail: bytes) -> None:
        context, incoming = self._context, self.incoming
        now = context.now()
        context.access.add(
            access_line(
                now + context.wall_offset_s,
                incoming.request_id,
                incoming.head.path,
                status,
                self._route.json_name,
                self._endpoint,
                self._rescue.attempts,
                b"low" if self._lane is Lane.LOW else b"normal",
                None if incoming.key is None else incoming.key.json_name,
                b"true" if self._routing.stream else b"false",
                self._ttft_s,
                now - self.started_at,
                tail,
            )
        )
