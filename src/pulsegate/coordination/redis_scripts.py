"""What runs inside Redis, one script at a time: who takes part, what was said, and who may still say something.

Four keys with one hash tag, so that a cluster keeps them together:

=========  ======  ==========================================================
present    zset    member -> until when, in ms by the server's own clock
order      zset    member -> the epoch that admitted it
state      hash    ``epoch`` and ``revision``, which only ever grow
kept       hash    key -> the latest value, whoever told it
=========  ======  ==========================================================

Time is read inside the scripts: no other clock judges who is late, so clocks of hosts need not agree.
"""

import re
from collections.abc import Sequence
from hashlib import sha1
from typing import NamedTuple, cast

import msgspec

from pulsegate.control.coordination import View, Words
from pulsegate.coordination.redis_line import Line, Word
from pulsegate.core.ids import PRESENTABLE, MemberId

_KEPT_FOR_S = 3600
"""What was said outlives the last member by so long: a restart finds it, and nothing stays for good."""

_PRELUDE = """
local present, order, state, kept = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local channel, member = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function counter(name)
  return tonumber(redis.call('HGET', state, name) or 0)
end

-- those whose time is over are no members; whether there were any
local function prune()
  local late = redis.call('ZRANGEBYSCORE', present, '-inf', now)
  for _, name in ipairs(late) do
    redis.call('ZREM', present, name)
    redis.call('ZREM', order, name)
  end
  return #late > 0
end

-- a message is {revision, view or nil, words or nil} in msgpack
local function publish(revision, view, words)
  redis.call('PUBLISH', channel, '\\147' .. cmsgpack.pack(revision) .. view .. words)
end

local function announce(epoch)
  redis.call('HSET', state, 'epoch', epoch)
  local members = redis.call('ZRANGE', order, 0, -1)
  publish(counter('revision'), cmsgpack.pack({epoch, members}), '\\192')
end
"""

_BEAT = """
local ttl, known_epoch, known_revision, picture = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local epoch, revision = counter('epoch'), counter('revision')
local changed = prune()

-- this server knows less than its members do: it was restarted, or was a replica that lagged
if known_epoch > epoch then
  epoch, changed = known_epoch, true
end
if known_revision > revision then
  revision = known_revision + 1
  redis.call('HSET', state, 'revision', revision)
end

local admitted = tonumber(redis.call('ZSCORE', order, member) or nil)
if changed or not admitted then
  epoch = epoch + 1
  if not admitted then
    admitted = epoch
    redis.call('ZADD', order, epoch, member)
  end
  announce(epoch)
end
redis.call('ZADD', present, now + ttl, member)
redis.call('EXPIRE', kept, ARGV[7])
local values = false
if picture == '1' then values = redis.call('HVALS', kept) end
return {epoch, admitted, revision, redis.call('ZRANGE', order, 0, -1), values}
"""

_TELL = """
local epoch, keys = tonumber(ARGV[3]), tonumber(ARGV[4])
if prune() then announce(counter('epoch') + 1) end
local admitted = redis.call('ZSCORE', order, member)
if not admitted or epoch < tonumber(admitted) then return -1 end

-- cmsgpack writes text only; a value may be any bytes
local function binary(value) return '\\198' .. struct.pack('>I4', #value) .. value end

local words = {'\\148', cmsgpack.pack(member), cmsgpack.pack(epoch), '\\223' .. struct.pack('>I4', keys)}
local at = 5
for _ = 1, keys do
  redis.call('HSET', kept, ARGV[at], ARGV[at + 1])
  words[#words + 1] = cmsgpack.pack(ARGV[at]) .. binary(ARGV[at + 1])
  at = at + 2
end
words[#words + 1] = '\\221' .. struct.pack('>I4', #ARGV - at + 1)
for passing = at, #ARGV do words[#words + 1] = binary(ARGV[passing]) end

local revision = redis.call('HINCRBY', state, 'revision', 1)
publish(revision, '\\192', table.concat(words))
return revision
"""

_LEAVE = """
local changed = prune()
redis.call('ZREM', present, member)
if redis.call('ZREM', order, member) == 1 or changed then announce(counter('epoch') + 1) end
return 1
"""


class Message(NamedTuple):
    """What goes over the channel: who takes part now, or what a member said."""

    revision: int
    view: View | None
    words: Words | None


class Beat(NamedTuple):
    """The answer to a heartbeat.

    ``admitted`` is the epoch that admitted this member; another one than last time means that it had been given up.
    ``picture`` holds all values at ``revision``, None if it was not asked for.
    """

    view: View
    admitted: int
    revision: int
    picture: Sequence[bytes] | None


class Script(NamedTuple):
    """A script and the name under which the server keeps it."""

    source: str
    sha: str


def _script(body: str) -> Script:
    source = _PRELUDE + body
    return Script(source, sha1(source.encode()).hexdigest())  # noqa: S324 - the name that Redis gives it


_NAME = re.compile(PRESENTABLE)
_BEAT_SCRIPT, _TELL_SCRIPT, _LEAVE_SCRIPT = _script(_BEAT), _script(_TELL), _script(_LEAVE)
_DECODER = msgspec.msgpack.Decoder(Message)


class Fleet:
    """The scripts for one member of one fleet."""

    def __init__(self, fleet: str, member: MemberId, member_timeout_s: float) -> None:
        self._tag = f"{{pulsegate:{fleet}}}"
        self._member = member
        self._ttl_ms = round(member_timeout_s * 1000)
        self.channel = f"{self._tag}:words"
        self.kept = f"{self._tag}:kept"

    async def beat(self, line: Line, *, epoch: int, revision: int, with_picture: bool) -> Beat:
        """Be a member for another while. ``epoch`` and ``revision`` are the highest that are known here."""
        answer = await self._run(line, _BEAT_SCRIPT, self._ttl_ms, epoch, revision, int(with_picture), _KEPT_FOR_S)
        new_epoch, admitted, new_revision, members, values = cast(
            "tuple[int, int, int, list[bytes], list[bytes] | None]", answer
        )
        names = (member.decode(errors="replace") for member in members)
        view = View(new_epoch, tuple(MemberId(name) for name in names if _is_name(name)))
        return Beat(view, admitted, new_revision, values)

    async def tell(self, line: Line, words: Words) -> bool:
        """Whether it was said: not by one that is no member now, or was none at the epoch of its words."""
        kept = (item for pair in words.kept.items() for item in pair)
        return await self._run(line, _TELL_SCRIPT, words.epoch, len(words.kept), *kept, *words.passing) != -1

    async def leave(self, line: Line) -> None:
        """Be a member no longer."""
        await self._run(line, _LEAVE_SCRIPT)

    async def _run(self, line: Line, script: Script, *arguments: Word) -> object:
        keys = [f"{self._tag}:{name}" for name in ("present", "order", "state", "kept")]
        return await line.run(script.sha, script.source, len(keys), *keys, self.channel, self._member, *arguments)


def read_message(payload: bytes) -> Message | None:
    """None for what no Pulsegate of this version wrote: the revision tells that something was missed."""
    try:
        message = _DECODER.decode(payload)
    except msgspec.DecodeError:
        return None
    if message.words is not None and not _is_name(message.words.author):
        return None
    if message.view is not None:
        members = tuple(filter(_is_name, message.view.members))
        message = message._replace(view=message.view._replace(members=members))
    return message


def _is_name(member: str) -> bool:
    """Whether a gateway can have given itself that name, which goes into logs and pages; others may write here, too."""
    return _NAME.fullmatch(member) is not None
