"""Reading scripts, and complaining about them."""

import pytest

from pulsegate.sim import ScriptError, read_script
from pulsegate.sim import script as do
from pulsegate.sim.answer import Wrong
from pulsegate.sim.durations import seconds
from pulsegate.sim.load import Spread
from pulsegate.sim.script import Group
from pulsegate.sim.vocabulary import read_step


def test_a_whole_script():
    script = read_script(
        """
        flags: [a, b]
        start: {refuse: 2s, deaf: 1, loading: 500ms}
        metrics: {running: 0, waiting: 6, kv_usage: 0, rise_per_s: 10}
        load: {slots: 2, ttft: 2s, ttft_sigma: 0.5, comment_every: 1s}
        rules:
          - name: half
            match: {path: [gen, /slots], from: 2, to: 5, longer_than: 160, header: {x-a: "1.*"}, probe: true}
            do: [role, {token: Hello}, hang]
        """
    )
    assert script.flags == {"a", "b"}
    assert script.start == do.Start(refuse_s=2, deaf_s=1, loading_s=0.5)
    assert script.metered == do.Metered(running=0, waiting=6, kv_usage=0, rise_per_s=10)
    assert script.load == {"slots": 2, "ttft": Spread(median_s=2, sigma=0.5), "comment_every_s": 1}
    (rule,) = script.rules
    assert rule.match.groups == (Group.GEN,)
    assert rule.match.paths == ("/slots",)
    assert (rule.match.nth_from, rule.match.nth_to, rule.match.longer_than) == (2, 5, 160)
    assert rule.steps == (do.Role(), do.Token(text="Hello"), do.Hang())


def test_a_list_is_its_rules_and_nothing_is_a_sound_engine():
    assert read_script("[{do: hang}]").rules[0].steps == (do.Hang(),)
    assert read_script("") == do.Script()
    assert read_script({"rules": [{"match": {"nth": 3}, "do": ["fin"]}]}).rules[0].match.nth_to == 3


@pytest.mark.parametrize(
    ("step", "value"),
    [
        ({"sleep": "20ms"}, do.Sleep(seconds=(0.02,))),
        ({"sleep": [1, "2m"]}, do.Sleep(seconds=(1, 120))),
        ({"respond": 404}, do.Respond(status=404)),
        ({"respond": {"text": "x"}}, do.Respond(body=b"x", content_type="text/plain; charset=utf-8")),
        ({"redirect": "/a"}, do.Respond(status=307, headers=(("location", "/a"),))),
        ({"head": {"status": 202}}, do.Head(status=202)),
        ({"token": {"text": "a", "times": 31, "every": "1ms"}}, do.Token(text="a", times=31, every_s=0.001)),
        ({"reasoning": "hm"}, do.Token(text="hm", reasoning=True)),
        ({"finish": None}, do.Finish(None)),
        ({"finish": ""}, do.Finish("")),
        ("usage", do.Usage(None)),
        ({"usage": {"prompt_tokens": 3}}, do.Usage({"prompt_tokens": 3})),
        ({"event": "x"}, do.Event(b"x")),
        ({"event": [1]}, do.Event(b"[1]")),
        ({"comment": ""}, do.Comment(text="")),
        ({"raw": {"base64": "AAE="}}, do.Raw(data=b"\0\1")),
        ({"raw": "é漢"}, do.Raw(data="é漢".encode())),
        ({"raw_socket": "\xff"}, do.Raw(data=b"\xff", to_socket=True)),
        ({"frame": {"eol": "crlf", "space": False}}, do.Frame(eol=b"\r\n", space=False)),
        ("generate", do.Generate()),
        ({"generate": {"wrong": "bang", "scale": 10}}, do.Generate(wrong=Wrong.BANG, scale=10)),
        ("crash", do.Crash()),
        ({"crash": {"restart": "2s", "loading": "1s"}}, do.Crash(restart_s=2, loading_s=1)),
        ({"deaf": "30s"}, do.Deaf(for_s=30)),
        ("refuse_port", do.RefusePort()),
        ({"sleep_mode": False}, do.SleepMode(on=False)),
        ({"unset": "a"}, do.SetFlag("a", on=False)),
        ({"hang": True}, do.Hang()),
    ],
)
def test_steps(step, value):
    assert read_step("here", step) == value


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("rulez: []", "script: unknown key 'rulez'; did you mean 'rules'?"),
        ("[{do: [hangs]}]", "rules[0].do[0]: unknown key 'hangs'; did you mean 'hang'?"),
        ("[{match: {pth: gen}, do: hang}]", "rules[0].match: unknown key 'pth'; did you mean 'path'?"),
        ("[{match: {path: generate}, do: hang}]", "rules[0].match.path: 'generate' is neither a path"),
        ("[{do: [{sleep: 3 parsecs}]}]", "rules[0].do[0].sleep: '3 parsecs' is not a duration"),
        ("[{do: [{sleep: []}]}]", "None is not a duration"),
        ("[{match: {}}]", "rules[0]: needs a 'do'"),
        ("[{do: [{hang: 3}]}]", "takes nothing, not 3"),
        ("[{do: [{sleep: 1s, hang: true}]}]", "a step has one name"),
        ("[{do: [{generate: {wrong: bad}}]}]", "'bad' is none of bang, run, empty, garbage"),
        ("[{do: [{frame: {eol: nl}}]}]", "'nl' is none of lf, crlf, cr"),
        ("[{do: [{respond: {json: 1, text: a}}]}]", "'text' contradicts the body"),
        ("[{do: [{respond: {stats: 500}}]}]", "unknown key 'stats'; did you mean 'status'?"),
        ("[{do: [{refuse: tired}]}]", "'tired' is none of busy"),
        ("[{do: [{set: 3}]}]", "a text is expected, not 3"),
        ("[{do: [set]}]", "needs the name of a flag"),
        ("[{do: [token]}]", "needs a text"),
        ("[{do: [{raw: {base64: '###'}}]}]", "not base64"),
        ("[{match: {probability: 2}, do: hang}]", "a number between 0 and 1 is expected"),
        ("[{match: {from: -1}, do: hang}]", "a whole number is expected, not -1"),
        ("[{match: {probe: maybe}, do: hang}]", "true or false is expected"),
        ("load: {slot: 3}", "script.load: unknown key 'slot'; did you mean 'slots'?"),
        ("metrics: []", "script.metrics: a mapping is expected, not []"),
        ("rules: 3", "rules: a list is expected, not 3"),
        ("{1: 2}", "script: 1 is not a name"),
        ("a: [", "script: not YAML"),
        ("just text", "script: a mapping is expected, not 'just text'"),
    ],
)
def test_complaints_say_where_and_what_is_near(text, complaint):
    with pytest.raises(ScriptError) as caught:
        read_script(text)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"), [("20ms", 0.02), ("1.5s", 1.5), ("2m", 120), ("1h", 3600), (3, 3), ("4", 4)]
)
def test_durations(text, value):
    assert seconds(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "5 days", None, True, -1, "-3s"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="duration"):
        seconds(text)
