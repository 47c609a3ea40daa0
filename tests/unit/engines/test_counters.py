from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsegate.core.fleet import EngineName
from pulsegate.core.probe import Counters
from pulsegate.engines.counters import MetricNames, read_prometheus
from pulsegate.engines.dialects.registry import DIALECTS

METRICS = Path(__file__).parents[2] / "data" / "metrics"


def read(engine: EngineName, body: bytes, rank: int | None = None, headers: dict[str, str] | None = None):
    make = DIALECTS[engine].counter_reader
    assert make is not None
    return make().read(body, headers or {}, rank)


def test_recorded_vllm():
    body = (METRICS / "vllm.txt").read_bytes()
    expected = Counters(progress=6.0 + 16.0 + 6.0, running=0.0, waiting=0.0, started_at=1796066027.17)
    assert read(EngineName.VLLM, body) == expected
    assert read(EngineName.VLLM, body, rank=0) == expected
    assert read(EngineName.VLLM, body, rank=1) is None


def test_recorded_llamacpp():
    body = (METRICS / "llamacpp.txt").read_bytes()
    counters = read(EngineName.LLAMACPP, body, headers={"process-start-time-unix": "1547970837"})
    assert counters == Counters(progress=9.0 + 9.0 + 69.0, running=0.0, waiting=0.0, started_at=1547970837.0)


DP = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a"} 3.0
vllm:num_requests_running{engine="1",model_name="a"} 1.0
vllm:num_requests_running{engine="10",model_name="a"} 7.0
vllm:num_requests_waiting{engine="0",model_name="a"} 2
vllm:num_requests_waiting{engine="1",model_name="a"} 0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 99
vllm:generation_tokens_total{engine="0",model_name="a"} 1e+06
vllm:generation_tokens_total{engine="1",model_name="a"} 13.0
vllm:generation_tokens_created{engine="1",model_name="a"} 1.7e9
"""


def test_ranks_are_told_apart():
    assert read(EngineName.VLLM, DP) == Counters(progress=1_000_013.0, running=11.0, waiting=2.0)
    assert read(EngineName.VLLM, DP, rank=1) == Counters(progress=13.0, running=1.0, waiting=0.0)
    assert read(EngineName.VLLM, DP, rank=0) == Counters(progress=1_000_000.0, running=3.0, waiting=2.0)


@pytest.mark.parametrize(
    ("engine", "body", "expected"),
    [
        (
            EngineName.SGLANG,
            (
                b'sglang:num_running_reqs{model_name="m",tp_rank="0"} 4\nsglang:num_queue_reqs{model_name="m"} 9\n'
                b'sglang:generation_tokens_total{model_name="m"} 10\nsglang:prompt_tokens_total{model_name="m"} 5\n'
                b'sglang:realtime_tokens_total{mode="decode"} 100\nsglang:inter_token_latency_seconds_count{m="a"} 7\n'
            ),
            Counters(progress=122.0, running=4.0, waiting=9.0),
        ),
        (
            EngineName.TGI,
            (
                b'tgi_batch_current_size 2\ntgi_queue_size 5\ntgi_batch_inference_success{method="prefill"} 3\n'
                b'tgi_batch_inference_success{method="decode"} 40\ntgi_request_generated_tokens_sum 11\n'
            ),
            Counters(progress=54.0, running=2.0, waiting=5.0),
        ),
        (
            EngineName.LMDEPLOY,
            (
                b'lmdeploy:generation_tokens_total{engine="0",model_name="m"} 8\n'
                b'lmdeploy:num_requests_running{engine="0"} 1\nlmdeploy:num_requests_waiting{engine="0"} 2\n'
                b'lmdeploy:num_api_requests_waiting{engine="0"} 3\n'
            ),
            Counters(progress=8.0, running=1.0, waiting=5.0),
        ),
        (
            EngineName.TRITON,
            (
                b'{"model_stats":[{"name":"m","version":"1","inference_count":5,"response_stats":{"0":{"success":'
                b'{"count":4,"ns":1},"empty_response":{"count":1}},"1":{"success":{"count":2}}}}]}'
            ),
            Counters(progress=7.0, running=None, waiting=None),
        ),
        (EngineName.TRITON, b'{"model_stats":[{"name":"m","inference_count":5}]}', None),
        (EngineName.TRITON, b"not json", None),
        (EngineName.VLLM, b"", None),
        (EngineName.VLLM, b"<html>404</html>", None),
    ],
)
def test_names(engine: EngineName, body: bytes, expected: Counters | None):
    assert read(engine, body) == expected


def test_trtllm_remembers_the_last_iteration():
    make = DIALECTS[EngineName.TRTLLM].counter_reader
    assert make is not None
    reader = make()
    assert reader.read(b"[]", {}, None) is None  # the statistics may be switched off
    page = b'[{"iter":7,"numActiveRequests":2},{"iter":8,"numActiveRequests":3,"numQueuedRequests":1,"x":{}}]'
    assert reader.read(page, {}, None) == Counters(progress=8.0, running=3.0, waiting=1.0)
    assert reader.read(b"[]", {}, None) == Counters(progress=8.0, running=3.0, waiting=1.0)
    assert reader.read(b"oops", {}, None) is None


NAMES = MetricNames(progress=(b"tokens_total",), running=(b"running",), rank_label="engine")


@pytest.mark.parametrize(
    ("body", "progress"),
    [
        (b"tokens_total 5", 5.0),
        (b"tokens_total 5 1796066027000\n", 5.0),
        (b'tokens_total{a="}"} 5\n', 5.0),
        (b'tokens_total{a="x\\"} 9"} 5\n', 5.0),
        (b'tokens_total{a="b"} 5 # {trace_id="x"} 1.0 1.7e9\n', 5.0),
        (b"tokens_total\t5\r\n", 5.0),
        (b"tokens_total 5\ntokens_total 6\n", 11.0),
        (b"tokens_total_bucket 9\ntokens_total 5\nmy_tokens_total 9\n", 5.0),
        (b"tokens_total NaN\ntokens_total +Inf\n", None),
        (b"tokens_total five\n", None),
        (b"tokens_total", None),
        (b"# tokens_total 5\n", None),
    ],
)
def test_text_format(body: bytes, progress: float | None):
    assert read_prometheus(body, NAMES).progress == progress


def test_a_label_value_is_no_label():
    body = b'tokens_total{model="engine=\\"1\\"",engine="0"} 5\n'
    assert read_prometheus(body, NAMES, rank=1).progress is None


@given(st.binary(max_size=200), st.integers(0, 1000), st.binary(max_size=200))
def test_found_among_anything(before: bytes, value: int, after: bytes):
    noise = before.replace(b"tokens_total", b""), after.replace(b"tokens_total", b"")
    body = noise[0] + b'\ntokens_total{engine="0"} %d\n' % value + noise[1]
    assert read_prometheus(body, NAMES).progress == float(value)
