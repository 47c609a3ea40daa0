"""API keys: who may come in, in which lane, to which models, with how many requests at once.

The file holds only hashes::

    keys:
      - name: billing-service          # for the log; unique
        sha256: 9f86d081884c7d65...    # of the key, 64 hexadecimal digits
        lane: low                      # optional: normal (default) or low
        models: [qwen3-32b]            # optional: all models
        max_inflight: 8                # optional: no limit

A plain SHA-256 is enough, because keys are long random strings and not passwords.
"""

import hashlib
import hmac
from pathlib import Path

import msgspec

from pulsegate.core.routing import Lane
from pulsegate.gateway.access import json_text

_PREFIX = b"bearer "
_DIGEST_BYTES = 32


class KeySpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of the file."""

    name: str
    sha256: str
    lane: Lane = Lane.NORMAL
    models: tuple[str, ...] | None = None
    max_inflight: int | None = None


class KeyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    keys: tuple[KeySpec, ...]


class Key:
    """One key and its requests in flight in this worker."""

    __slots__ = ("inflight", "json_name", "lane", "max_inflight", "models", "name")

    def __init__(self, spec: KeySpec) -> None:
        self.name = spec.name
        self.json_name = json_text(spec.name)
        self.inflight = 0
        self.allow(spec)

    def allow(self, spec: KeySpec) -> None:
        """Take over what the file now says."""
        self.lane = spec.lane
        self.models = None if spec.models is None else frozenset(spec.models)
        self.max_inflight = spec.max_inflight

    def may_use(self, model: str) -> bool:
        """Whether this model is allowed."""
        return self.models is None or model in self.models

    @property
    def full(self) -> bool:
        """Whether it has as many requests in flight as it may."""
        return self.max_inflight is not None and self.inflight >= self.max_inflight

    def __repr__(self) -> str:
        return f"Key({self.name}, inflight={self.inflight})"


class KeyRing:
    """All keys. Compares with every one of them, in constant time: which one fits, or nearly does, cannot be timed."""

    __slots__ = ("_digests", "keys")

    def __init__(self, specs: tuple[KeySpec, ...], former: "KeyRing | None" = None) -> None:
        """``former`` is the ring that this one replaces: keys that stay, by name, keep their requests in flight.

        Raises:
            ValueError: a hash is not one, or a name is there twice.
        """
        digests = [_digest(spec) for spec in specs]
        double = {spec.name for spec in specs if sum(spec.name == other.name for other in specs) > 1}
        if double:
            raise ValueError(f"key {min(double)} is there twice")
        known: dict[str, Key] = {} if former is None else former.keys
        self.keys: dict[str, Key] = {spec.name: known.get(spec.name) or Key(spec) for spec in specs}
        for spec in specs:
            self.keys[spec.name].allow(spec)
        self._digests = list(zip(digests, self.keys.values(), strict=True))

    def find(self, authorization: bytes | None) -> Key | None:
        """The key that an Authorization header carries, None if it carries none that is known."""
        if authorization is None or authorization[: len(_PREFIX)].lower() != _PREFIX:
            return None
        given = hashlib.sha256(authorization[len(_PREFIX) :].strip()).digest()
        found: Key | None = None
        for digest, key in self._digests:
            if hmac.compare_digest(digest, given):
                found = key
        return found

    def __len__(self) -> int:
        return len(self._digests)


def _digest(spec: KeySpec) -> bytes:
    try:
        digest = bytes.fromhex(spec.sha256)
    except ValueError:
        digest = b""
    if len(digest) != _DIGEST_BYTES:
        raise ValueError(f"key {spec.name}: sha256 must be 64 hexadecimal digits")
    return digest


def load_keys(path: str, former: KeyRing | None = None) -> KeyRing:
    """Read a keys file (YAML, and so JSON too).

    Raises:
        ValueError: it cannot be read or is not a keys file; the message names the file and what is wrong, never a hash.
    """
    try:
        document = msgspec.yaml.decode(Path(path).read_bytes(), type=KeyFile)
        return KeyRing(document.keys, former)
    except OSError as exc:
        raise ValueError(f"keys file {path}: {exc.strerror}") from exc
    except (msgspec.MsgspecError, ValueError) as exc:
        raise ValueError(f"keys file {path}: {exc}") from exc
