"""The section ``coordination``: with whom this gateway shares its probes."""

import re
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from pulsegate.config.redis_url import RedisUrl
from pulsegate.config.section import ExistingFile, Secret, Section, Text
from pulsegate.config.units import Seconds, one_of, rejected
from pulsegate.core.coordination import CoordinationSpec, RedisSpec
from pulsegate.core.fleet import TlsSpec
from pulsegate.core.sharding import Mode


class Backend(StrEnum):
    """Where gateways meet."""

    MEMORY = "memory"
    REDIS = "redis"


def _fleet(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", value):
        raise rejected("is not a name", "use up to 64 letters, digits and . _ -")
    return value


class CoordinationTls(Section):
    """How the Redis is trusted."""

    ca_file: ExistingFile | None = None
    cert_file: ExistingFile | None = None
    key_file: ExistingFile | None = None


class CoordinationSection(Section):
    """Several gateways that watch the same endpoints share their probes."""

    backend: Annotated[Backend, one_of(Backend)] = Backend.MEMORY
    url: RedisUrl | None = None
    username: Text | None = None
    password: Secret | None = None
    tls: CoordinationTls | None = None
    fleet: Annotated[str, AfterValidator(_fleet)] = "default"
    mode: Annotated[Mode, one_of(Mode)] = Mode.SHARD
    heartbeat_s: Annotated[Seconds, Field(ge=0.1)] = Field(default=1.0, alias="heartbeat")
    member_timeout_s: Seconds = Field(default=3.0, alias="member_timeout")

    def spec(self) -> CoordinationSpec:
        """What there is to know for whoever opens the way to the others."""
        return CoordinationSpec(
            redis=self._redis(),
            fleet=self.fleet,
            mode=self.mode,
            heartbeat_s=self.heartbeat_s,
            member_timeout_s=self.member_timeout_s,
        )

    def _redis(self) -> RedisSpec | None:
        if self.backend is Backend.MEMORY or self.url is None:
            return None
        return replace(
            self.url,
            username=self.username or self.url.username,
            password=self.password.get_secret_value() if self.password else self.url.password,
            tls=TlsSpec(**self.tls.model_dump()) if self.tls else self.url.tls,
        )
