"""What a worker writes into its ledger, and whom it asks before it spends: a real gateway before raw servers."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager, suppress
from decimal import Decimal

import pytest

from pulsegate.control.link import LEDGER_CODE, LIMIT_CODE, Admission
from pulsegate.core.health import Reason
from pulsegate.core.ids import EndpointId
from pulsegate.core.money import Currency, Rates, time_price, token_price
from pulsegate.core.provider_fault import ProviderFault
from pulsegate.gateway.books import Books
from pulsegate.gateway.server import Gateway
from pulsegate.gateway.setup import LedgerSetup
from pulsegate.ledger.verifying import verify
from support import raw_server as script
from support.gateways import (
    DONE,
    END,
    ROLE,
    STREAM_HEAD,
    Client,
    Heard,
    Running,
    ask_for,
    chunk,
    delta,
    event,
    json_answer,
    pool,
    setup_of,
    stream_answer,
    until,
)
from support.ledgers import NOON, writer
from support.raw_server import raw_server

PRICE = token_price("config", (Rates(input=Decimal(2), cached=Decimal(1), output=Decimal(8)),), Currency.CNY, None)
PAID = {"provider": "deepseek", "price": PRICE}


class Bank:
    """A ``Teller`` whose control process lets in what it can pay for."""

    def __init__(self, cny="1000", *, is_silent=False):
        self.left, self.is_silent = Decimal(cny), is_silent
        self.books = None
        self.held, self.heard, self.uppers, self.states = {}, [], [], []

    def may_pay(self, ask, _provider, _client, upper_cny):
        self.uppers.append(upper_cny)
        if self.is_silent:
            return
        good = upper_cny <= self.left
        if good:
            self.held[ask] = upper_cny
            self.left -= upper_cny
        admission = Admission(ask) if good else Admission(ask, LIMIT_CODE, "The cost limit is reached.", 60.0)
        self.books._soon_for_tests(self.books.answered, admission)

    def paid(self, ask, _op, _attempt, cny):
        self.left += self.held.pop(ask, Decimal()) - cny
        self.heard.append(("paid", ask, cny))

    def forgone(self, ask):
        self.left += self.held.pop(ask, Decimal())
        self.heard.append(("forgone", ask))

    def ledger_state(self, problem):
        self.states.append(problem)


class TestBooks(Books):
    """Answers come in a later turn of the loop, as they would from another process."""

    __test__ = False

    def _soon_for_tests(self, call, *args):
        asyncio.get_running_loop().call_soon(call, *args)


@asynccontextmanager
async def booking(path, *pools, bank=None, limited=True, refuses=True):
    bank = bank or Bank()
    ledger = LedgerSetup(path=str(path), limited=limited, refuses=refuses)

    def open_books(setup, _wall_of):
        bank.books = TestBooks(setup, writer(path), bank, lambda _now: NOON)
        return bank.books

    gateway = Gateway(setup_of(*pools, ledger=ledger), None, heard := Heard(), open_books=open_books)
    listener = socket.create_server(("127.0.0.1", 0))
    async with gateway.open(listener):
        run = Running(gateway, listener.getsockname()[1], heard)
        yield run, bank
        await run.idle()


def lines(path):
    return [json.loads(line, parse_float=Decimal) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "l.jsonl"


def answering(*answers):
    return raw_server(*([script.Request(), *(script.Send(a) for a in answer)] * 40 for answer in answers))


async def test_an_answer_is_written_with_its_usage_and_cost(path):
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 40}}
    body = {"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}], "usage": usage}
    async with answering([json_answer(body)]) as server, booking(path, pool(server.port, **PAID)) as (run, bank):
        reply = await run.ask(ask_for(max_tokens=50), headers={"X-Request-ID": "mine"})
        assert reply.status == 200
        (line,) = lines(path)
    assert (line["request_id"], line["attempt"], line["kind"], line["status"]) == ("mine", 1, "request", 200)
    assert (line["provider"], line["model"], line["endpoint"]) == ("deepseek", "small", f"e{server.port}")
    assert (line["prompt_tokens"], line["cached_tokens"], line["completion_tokens"]) == (100, 40, 20)
    assert line["cost"] == Decimal("0.00032")
    assert (line["currency"], line["usage"]) == ("CNY", "reported")
    assert line["price_version"] == "config: 2/1/8 CNY/M"
    assert line["op"] != "mine"
    assert bank.heard == [("paid", 1, Decimal("0.00032"))]
    assert bank.uppers[0] > Decimal("0.0004")


@pytest.mark.parametrize("answer", [json_answer(), stream_answer("a", "b")])
async def test_the_line_is_there_before_the_answer_has_its_end(path, answer):
    async with answering([answer]) as server, booking(path, pool(server.port, **PAID)) as (run, bank):
        client = socket.create_connection(("127.0.0.1", run.port))
        body = json.dumps(ask_for(stream=b"event-stream" in answer)).encode()
        client.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        client.setblocking(False)  # noqa: FBT003 - the socket API
        seen, paid = [], bank.paid

        def look(*args):
            with suppress(BlockingIOError):
                seen.append(client.recv(65536, socket.MSG_PEEK))
            paid(*args)

        bank.paid = look
        await until(lambda: bank.heard)
        assert not any(told.endswith((b"}", b"0\r\n\r\n")) for told in seen)
        await until(lambda: client.recv(65536).endswith((b"}", b"0\r\n\r\n")))
        client.close()


async def test_a_stream_is_written_with_its_last_usage_that_is_not_zero(path):
    zero = {"prompt_tokens": 0, "completion_tokens": 0}
    early = event({"choices": [{"index": 0, "delta": {"content": "a"}}], "usage": zero})
    real = event({"choices": [{"index": 0, "delta": {}}], "usage": {"prompt_tokens": 9, "completion_tokens": 2}})
    null = event({"choices": [{"index": 0, "delta": {}}], "usage": None})
    stream = STREAM_HEAD + b"".join(map(chunk, (ROLE, early, delta(content="b"), real)))
    rest = b"".join(map(chunk, (null, event({"choices": [], "usage": zero}), DONE))) + END
    async with answering([stream, rest]) as server, booking(path, pool(server.port, **PAID)) as (run, _):
        await run.ask(ask_for(stream=True))
        (line,) = lines(path)
    assert (line["prompt_tokens"], line["completion_tokens"], line["usage"]) == (9, 2, "reported")
    assert line["ttft_ms"] > 0


async def test_a_stream_without_usage_is_estimated_never_zero(path):
    async with (
        answering([stream_answer("a", "b", "c")]) as server,
        booking(path, pool(server.port, **PAID)) as (run, _),
    ):
        await run.ask(ask_for(stream=True))
        (line,) = lines(path)
    assert line["usage"] == "estimated"
    assert line["completion_tokens"] >= 3
    assert line["cost"] > 0


async def test_a_client_that_leaves_is_booked_with_what_it_had(path):
    steps = [script.Request(), script.Send(STREAM_HEAD + chunk(ROLE) + chunk(delta(content="a"))), script.Hang()]
    async with raw_server(steps) as server, booking(path, pool(server.port, **PAID)) as (run, bank):
        async with Client(run.port) as client:
            body = json.dumps(ask_for(stream=True)).encode()
            client.writer.write(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )
            await client.reader.readuntil(b'"a"')
        await until(lambda: bank.heard)
        (line,) = lines(path)
    assert (line["usage"], line["status"]) == ("estimated", 200)
    assert line["completion_tokens"] == 2  # the role's event and the token's
    assert bank.heard[0][0] == "paid"
    assert bank.left + line["cost"] == 1000


async def test_every_attempt_that_reached_an_upstream_has_its_line_and_the_request_one_first(path):
    busy = json_answer({"error": "busy"}, status="503 Service Unavailable")
    dead = socket.create_server(("127.0.0.1", 0))
    gone = dead.getsockname()[1]
    dead.close()
    async with answering([busy]) as one, answering([json_answer()]) as two:
        pools = [pool(gone, name="gone"), pool(one.port, name="busy", **PAID), pool(two.port, name="good")]
        async with booking(path, *pools) as (run, _):
            assert (await run.ask(ask_for())).status == 200
            first, second = lines(path)
    assert first["op"] == second["op"]
    assert [(line["attempt"], line["status"]) for line in (first, second)] == [(1, 503), (2, 200)]
    assert (first["cost"], first["usage"], first["prompt_tokens"]) == (0, "missing", 0)
    assert (second["cost"], second["provider"], second["usage"]) == (None, None, "reported")


async def test_what_cannot_be_paid_is_refused_and_nothing_is_sent(path):
    async with answering([json_answer()]) as server:
        async with booking(path, pool(server.port, **PAID), bank=Bank("0.00001")) as (run, bank):
            reply = await run.ask(ask_for())
            assert (reply.status, reply.code) == (402, LIMIT_CODE)
            assert reply.headers["retry-after"] == "60"
            assert run.gateway.books is bank.books
        assert server.connections == []
    assert path.read_text() == ""


async def test_a_free_pool_serves_when_there_is_no_money(path):
    async with answering([json_answer()]) as paid, answering([json_answer()]) as free:
        pools = [pool(paid.port, name="paid", **PAID), pool(free.port, name="free")]
        async with booking(path, *pools, bank=Bank("0")) as (run, _):
            assert (await run.ask(ask_for())).status == 200
    assert paid.connections == []
    assert [line["provider"] for line in lines(path)] == [None]


async def test_a_burst_spends_no_more_than_there_is(path):
    def burst(run):
        return [run.ask(ask_for(max_tokens=100)) for _ in range(60)]

    slow = [script.Request(), script.Wait(0.1), script.Send(json_answer())] * 40
    async with raw_server(slow) as server:
        bank = Bank("0.01")
        async with booking(path, pool(server.port, **PAID), bank=bank) as (run, _):
            statuses = [reply.status for reply in await asyncio.gather(*burst(run))]
    assert set(statuses) == {200, 402}
    assert sum(line["cost"] for line in lines(path)) + bank.left == Decimal("0.01")
    assert bank.left >= 0


async def test_a_client_that_leaves_while_we_ask_costs_nothing(path):
    async with answering([json_answer()]) as server:
        async with booking(path, pool(server.port, **PAID), bank=Bank(is_silent=True)) as (run, bank):
            async with Client(run.port) as client:
                body = json.dumps(ask_for()).encode()
                client.writer.write(
                    b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
                )
                await until(lambda: bank.uppers)
            await until(lambda: bank.heard)
            assert bank.heard == [("forgone", 1)]
        assert server.connections == []


async def test_one_request_tries_a_provider_that_comes_back_also_while_it_asks_for_money(path):
    bank = Bank(is_silent=True)
    async with answering([json_answer()]) as paid, answering([json_answer()]) as free:
        pools = [pool(paid.port, name="paid", **PAID), pool(free.port, name="free")]
        async with booking(path, *pools, bank=bank) as (run, _), asyncio.TaskGroup() as tasks:
            watch = run.gateway._context.roster.watches["deepseek"]
            for _ in range(3):
                watch.failed(EndpointId(f"e{paid.port}"), ProviderFault.OUTAGE, trial=False)
            watch.pinged("", None)  # back, as it seems
            trying = tasks.create_task(run.ask(ask_for()))
            await until(lambda: len(bank.uppers) == 1)
            assert (await run.ask(ask_for())).status == 200
            assert len(bank.uppers) == 1
            assert [place.weight for place in watch.seen().places] == [0]
            bank.books.answered(Admission(1, LIMIT_CODE, "The cost limit is reached."))
            assert (await trying).status == 200
            assert [place.reason for place in watch.seen().places] == [Reason.RECOVERING]  # for the next who can pay
    assert paid.connections == []


async def test_without_the_control_process_the_allowance_is_spent_and_no_more(path):
    bank = Bank(is_silent=True)
    async with answering([json_answer()]) as server, booking(path, pool(server.port, **PAID), bank=bank) as (run, _):
        bank.books.allow(Decimal("0.07"))
        bank.books.alone()
        statuses = [(await run.ask(ask_for())).status for _ in range(3)]
        bank.books.allow(Decimal(0))
        statuses.append((await run.ask(ask_for())).status)
    assert statuses == [200, 200, 200, 402]


async def test_a_ledger_that_cannot_be_written_stops_paid_calls_only(path):
    path.symlink_to("/dev/full")
    async with answering([json_answer()], [json_answer()]) as server:
        bank = Bank()
        async with booking(path, pool(server.port, **PAID), bank=bank, limited=False) as (run, _):
            assert (await run.ask(ask_for())).status == 200
            reply = await run.ask(ask_for())
            assert (reply.status, reply.code) == (503, LEDGER_CODE)
            assert bank.states == [f"{path} cannot be written: No space left on device"]
            path.unlink()
            bank.books.tend()
            assert (await run.ask(ask_for())).status == 200
            assert bank.states[-1] is None
    assert verify(path).lines == 2


async def test_self_hosted_models_may_cost_by_the_hour(path):
    price = time_price("config", Decimal(36), Currency.CNY, None)
    async with answering([json_answer()]) as server, booking(path, pool(server.port, price=price)) as (run, bank):
        await run.ask(ask_for())
        (line,) = lines(path)
    assert abs(line["cost"] - line["duration_ms"] / 1000 / 100) < Decimal("0.00001")
    assert bank.heard == bank.uppers == []
