"""What each step of the script language puts on the wire."""

import json
import zlib

import pytest

from pulsegate.sim import EngineConfig, Load, SimServer, Spread
from support.sim_client import SimClient, ask, asking

QUIET_S = 0.4  # long enough for a busy machine to send what it is going to send
FAST = Load(ttft=Spread(median_s=0.001), itl_s=0)


async def play(steps: list, *, body=None, path="/v1/completions", engine="vllm", patience_s=5.0, ports=False):
    """What comes back when these steps are played for a generation."""
    async with SimServer([EngineConfig(engine=engine, load=FAST)], ports=ports) as sim:
        sim.engine().set_script({"rules": [{"do": steps}]})
        return await ask(sim.url(), path, body or asking(), patience_s=patience_s)


async def test_hang_before_the_status_line():
    seen = await play(["hang"], patience_s=QUIET_S)
    assert (seen.end, seen.raw) == ("silent", b"")


async def test_hang_after_the_headers():
    seen = await play(["head", "hang"], patience_s=QUIET_S)
    assert (seen.end, seen.status, seen.body) == ("silent", 200, b"")


async def test_hang_after_the_role():
    seen = await play(["role", "hang"], path="/v1/chat/completions", patience_s=QUIET_S)
    assert seen.end == "silent"
    assert [json.loads(event)["choices"][0]["delta"]["role"] for event in seen.events] == ["assistant"]


async def test_hang_after_some_tokens():
    seen = await play([{"generate": {"tokens": 3}}, "hang"], body=asking(8), patience_s=QUIET_S)
    assert seen.end == "silent"
    assert [json.loads(event)["choices"][0]["text"] for event in seen.events] == [" 4", ",", " 5"]


async def test_sleep_delays_the_whole_answer_and_grows_turn_by_turn():
    async with SimServer([EngineConfig(load=FAST)]) as sim:
        sim.engine().set_script("[{do: [{sleep: [0ms, 80ms]}]}]")
        first, second, third = [(await ask(sim.url(), body=asking())).pieces[0][0] for _ in range(3)]
    assert first < 0.07
    assert second >= 0.08
    assert third >= 0.08


async def test_a_whole_response():
    seen = await play([{"respond": {"status": 503, "json": {"a": 1}, "headers": {"retry-after": 7}}}])
    assert (seen.status, seen.json) == (503, {"a": 1})
    assert b"retry-after: 7" in seen.head


async def test_an_empty_error_response():
    seen = await play([{"respond": 500}])
    assert (seen.status, seen.body) == (500, b"")


async def test_reset():
    assert (await play(["head", "reset"])).end == "reset"


async def test_fin_leaves_the_body_unfinished():
    seen = await play([{"generate": {"tokens": 1}}, "fin"], body=asking(4))
    assert seen.end == "eof"
    assert not seen.raw.endswith(b"0\r\n\r\n")


async def test_truncate_cuts_within_a_chunk():
    seen = await play(["head", "truncate"])
    assert (seen.end, seen.raw.endswith(b'data: {"id":"cut')) == ("eof", True)


async def test_error_event_inside_a_200_stream():
    seen = await play(["role", {"error": "EngineCore died"}, "done", "end"], path="/v1/chat/completions")
    assert (seen.status, seen.end, seen.events[-1]) == (200, "whole", "[DONE]")
    assert json.loads(seen.events[1])["error"] == {
        "message": "EngineCore died",
        "type": "InternalServerError",
        "param": None,
        "code": 500,
    }


async def test_refuse_speaks_as_the_engine():
    unary = await play([{"refuse": "busy"}], engine="ollama", path="/api/generate")
    stream = await play(["head", {"refuse": "busy"}, "done"], engine="tgi")
    assert (unary.status, "maximum pending requests" in unary.json["error"]) == (503, True)
    assert json.loads(stream.events[0]) == {"error": {"message": "Model is overloaded", "http_status_code": 422}}


async def test_comments_are_sent_as_often_as_asked():
    seen = await play([{"comment": {"text": "PROCESSING", "times": 3, "every": "10ms"}}, "generate"])
    assert seen.body.count(b": PROCESSING\n\n") == 3
    assert seen.events[-1] == "[DONE]"


async def test_made_up_tokens_finish_usage():
    steps = ["role", {"token": "X"}, {"reasoning": "hm"}, {"finish": ""}, {"usage": "zeros"}, "usage", "done"]
    seen = await play(steps, path="/v1/chat/completions")
    chunks = [json.loads(event) for event in seen.events[:-1]]
    assert chunks[1]["choices"][0]["delta"] == {"content": "X"}
    assert chunks[2]["choices"][0]["delta"] == {"reasoning_content": "hm"}
    assert chunks[3]["choices"][0]["finish_reason"] == ""
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks[4:]] == [0, 2]
    assert seen.end == "whole"


async def test_an_event_of_any_kind():
    seen = await play([{"event": {"choices": [], "prompt_filter_results": []}}, {"event": ": X"}, "done"])
    assert seen.events == ['{"choices":[],"prompt_filter_results":[]}', ": X", "[DONE]"]


@pytest.mark.parametrize(("eol", "mark"), [("crlf", b"\r\n\r\n"), ("cr", b"\r\r"), ("lf", b"\n\n")])
async def test_line_ends_and_missing_space(eol, mark):
    seen = await play([{"frame": {"eol": eol, "space": False}}, "generate"])
    assert seen.body.startswith(b'data:{"id"')
    assert seen.body.endswith(b"data:[DONE]" + mark)


async def test_byte_order_mark():
    seen = await play([{"frame": {"bom": True}}, "generate"])
    assert seen.body.startswith(b"\xef\xbb\xbfdata: ")


async def test_split_at_every_byte():
    whole = await play(["generate"])
    seen = await play([{"frame": {"split": 1}}, "generate"])
    assert seen.end == "whole"
    assert len(seen.raw) == len(whole.raw)
    assert len(seen.pieces) > len(seen.raw) / 4


async def test_slow_drip():
    seen = await play([{"frame": {"split": 20, "every": "5ms"}}, "head", "hang"], patience_s=QUIET_S)
    times = [at for at, _ in seen.pieces]
    assert [len(data) for _, data in seen.pieces[:-1]] == [20] * (len(times) - 1)
    assert times[-1] - times[0] >= 0.005 * (len(times) - 1) * 0.8


async def test_gzip():
    seen = await play([{"frame": {"gzip": True}}, "generate"])
    assert b"content-encoding: gzip" in seen.head
    assert b"data: [DONE]" in zlib.decompress(seen.body, wbits=31)


async def test_raw_bytes_in_the_body_and_on_the_socket():
    body = await play(["head", {"raw": "data: {\n"}, "hang"], patience_s=QUIET_S)
    socket = await play([{"raw_socket": {"base64": "FQMDAAICKA=="}}, "fin"])
    assert body.body == b"data: {\n"
    assert (socket.end, socket.raw) == ("eof", b"\x15\x03\x03\x00\x02\x02\x28")


async def test_noise_instead_of_http():
    seen = await play([{"noise": {"bytes": 300, "to_socket": True}}, "hang"], patience_s=QUIET_S)
    assert (len(seen.raw), seen.raw[:5] == b"HTTP/") == (300, False)


async def test_redirect():
    seen = await play([{"redirect": "http://elsewhere/"}])
    assert (seen.status, b"location: http://elsewhere/" in seen.head) == (307, True)


async def test_endless_headers():
    seen = await play([{"endless_headers": {"every": "1ms"}}], patience_s=QUIET_S)
    assert (seen.end, b"\r\n\r\n" in seen.raw) == ("silent", False)
    assert seen.raw.count(b"x-filler") > 20


async def test_a_huge_line_is_not_piled_up_in_memory():
    seen = await play([{"huge_line": {"bytes": 1_000_000, "endless": True}}, "fin"], patience_s=10)
    assert (seen.end, len(seen.body)) == ("eof", len("data: ") + 1_000_000)
    assert b"\n" not in seen.body


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        ("bang", lambda text: text == "!!!!"),
        ("run", lambda text: text == "GGGG"),
        ("empty", lambda text: text == ""),
        ("garbage", lambda text: len(text) == 12 and not text.isascii()),
    ],
)
async def test_wrong_answers(kind, right):
    seen = await play([{"generate": {"wrong": kind}}], body=asking(4, stream=False))
    assert right(seen.json["choices"][0]["text"])


async def test_wrong_only_for_long_prompts_and_every_third():
    async with SimServer([EngineConfig(load=FAST)]) as sim:
        sim.engine().set_script(
            """
            - match: {longer_than: 20}
              do: [{generate: {wrong: run}}]
            - match: {every: 3}
              do: [{generate: {wrong: bang}}]
            """
        )
        texts = [
            (await ask(sim.url(), body=asking(stream=False, prompt=prompt))).json["choices"][0]["text"]
            for prompt in ("1, 2, 3,", "1, 2, 3,", "1, 2, 3,", "1, 2, 3, 4, 5, 6, 7, 8,")
        ]
    assert texts == [" 4", " 4", "!", "G"]


async def test_hostile_bytes_before_any_request():
    async with SimServer([EngineConfig()], ports=True) as sim:
        sim.engine().set_script([{"match": {"path": "connect"}, "do": [{"raw_socket": "SSH-2.0-x\r\n"}, "hang"]}])
        async with SimClient(sim.url()) as client:
            assert (await client.read(QUIET_S)).raw == b"SSH-2.0-x\r\n"


async def test_the_second_request_on_a_connection_meets_silence():
    async with SimServer([EngineConfig(load=FAST)]) as sim:
        sim.engine().set_script([{"match": {"request_on_connection_from": 2}, "do": ["hang"]}])
        async with SimClient(sim.url()) as client:
            ends = []
            for _ in range(2):
                client.send("POST", "/v1/completions", json.dumps(asking()).encode())
                ends.append((await client.read(QUIET_S)).end)
        fresh = await ask(sim.url(), body=asking())
    assert (ends, fresh.end) == (["whole", "silent"], "whole")


async def test_a_connection_that_was_idle_is_reset_when_it_is_used():
    async with SimServer([EngineConfig(load=FAST)]) as sim:
        sim.engine().set_script([{"match": {"request_on_connection_from": 2, "idle_over": "0ms"}, "do": ["reset"]}])
        async with SimClient(sim.url()) as client:
            client.send("POST", "/v1/completions", json.dumps(asking()).encode())
            assert (await client.read(1)).end == "whole"
            client.send("POST", "/v1/completions", json.dumps(asking()).encode())
            assert (await client.read(1)).end == "reset"
