import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsegate.gateway.errors import ApiError, error_body
from pulsegate.gateway.identity import presentable, request_ids
from pulsegate.gateway.request import Routing, may_name_two_models, read_routing, rewritten
from pulsegate.gateway.usage import Usage, is_usage_only, usage_in_events, usage_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), JSON, max_size=6), st.booleans(), st.sampled_from([None, 'other/é"model']))
def test_rewriting_changes_nothing_else(fields: dict[str, object], ask_usage: bool, model: str | None) -> None:
    fields = {**fields, "model": "small", "stream_options": {"x": 1.50}}
    body = json.dumps(fields).encode()
    got = json.loads(rewritten(body, model, ask_usage=ask_usage))
    expected = {**fields, "model": model or "small"}
    if ask_usage:
        expected["stream_options"] = {"x": 1.5, "include_usage": True}
    assert got == expected
    assert list(got) == list(expected)


def test_values_stay_byte_for_byte() -> None:
    body = b'{"a": 1e400 , "b":[1.0, "\\u00e9\\/" ], "model" : "m", "c":123456789012345678901234567890, "d":-0.0}'
    got = rewritten(body, "n", ask_usage=False)
    assert got == (b'{"a":1e400,"b":[1.0, "\\u00e9\\/" ],"model":"n","c":123456789012345678901234567890,"d":-0.0}')


@pytest.mark.parametrize(
    ("given_options", "sent"),
    [
        (b"null", {"include_usage": True}),
        (b'{"include_usage":false}', {"include_usage": True}),
        (
            b'{"include_usage":null,"continuous_usage_stats":true}',
            {"include_usage": True, "continuous_usage_stats": True},
        ),
    ],
)
def test_asking_for_usage(given_options: bytes, sent: dict[str, object]) -> None:
    body = b'{"model":"m","stream_options":%b}' % given_options
    assert json.loads(rewritten(body, None, ask_usage=True))["stream_options"] == sent


def test_a_field_that_is_given_twice_is_sent_once_as_it_was_read() -> None:
    body = b'{"model":"a","model":"b"}'
    routing = read_routing(body)
    assert isinstance(routing, Routing)
    assert json.loads(rewritten(body, None, ask_usage=False))["model"] == routing.model


def test_names_written_with_escapes_are_understood() -> None:
    routing = read_routing(b'{"mod\\u0065l":"a"}')
    assert isinstance(routing, Routing)
    assert routing.model == "a"
    assert json.loads(rewritten(b'{"mod\\u0065l":"a"}', "b", ask_usage=False)) == {"model": "b"}


def test_errors_have_openais_shape() -> None:
    error = ApiError(status=400, code="c", message='say "no"', param="p")
    assert json.loads(error_body(error)) == {
        "error": {"message": 'say "no"', "type": "invalid_request_error", "param": "p", "code": "c"}
    }


@given(st.binary(max_size=140))
def test_ids(given_id: bytes) -> None:
    allowed = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-"
    fits = 0 < len(given_id) <= 128 and all(byte in allowed for byte in given_id)
    assert presentable(given_id) is fits


def test_new_ids_differ_and_are_presentable() -> None:
    make, other = request_ids(lambda _: 5), request_ids(lambda _: 6)
    made = [make() for _ in range(1000)] + [other()]
    assert len(set(made)) == 1001
    assert all(len(each) == 32 and presentable(each) for each in made)


@pytest.mark.parametrize(
    ("document", "usage"),
    [
        (b'{"usage":{"prompt_tokens":1,"completion_tokens":2}}', Usage(1, 2)),
        (b'{"response":{"usage":{"input_tokens":1,"output_tokens":2}}}', Usage(1, 2)),
        (b'{"usage":{"prompt_tokens":1,"total_tokens":1}}', Usage(1, None)),
        (b'{"usage":{}}', None),
        (b'{"usage":null}', None),
        (b'{"usage":{"prompt_tokens":"1"}}', None),
        (b"[DONE]", None),
        (b"", None),
    ],
)
def test_usage(document: bytes, usage: Usage | None) -> None:
    assert usage_of(document) == usage


def test_the_last_usage_of_a_stream_counts() -> None:
    one, two = (b'data: {"usage":{"prompt_tokens":1,"completion_tokens":%d}}' % n for n in (1, 2))
    events = one + b"\n\n" + two + b'\r\n\r\ndata: {"usage":null}\n\ndata: [DONE]\n\n'
    assert usage_in_events(events) == Usage(1, 2)


def test_the_extra_chunk_is_told_from_others() -> None:
    assert is_usage_only(b' {"choices":[],"usage":{"prompt_tokens":1}}')
    assert not is_usage_only(b'{"choices":[{}],"usage":{"prompt_tokens":1}}')
    assert not is_usage_only(b'{"choices":[],"prompt_filter_results":[]}')


@pytest.mark.parametrize(
    ("body", "may"),
    [
        (b'{"model":"a","messages":[]}', False),
        (b'{"model":"b","model":"a"}', True),
        (b'{"Model":"b","model":"a"}', True),
        (b'{"mod\\u0065l":"b","model":"a"}', True),
        (b'{"model":"a","metadata":{"model":"b"}}', True),
    ],
)
def test_a_body_that_names_two_models_is_noticed(body: bytes, *, may: bool) -> None:
    assert may_name_two_models(body) is may


def test_another_spelling_of_model_is_left_out() -> None:
    assert json.loads(rewritten(b'{"MODEL":"b","model":"a","n":1}', None, ask_usage=False)) == {"model": "a", "n": 1}
