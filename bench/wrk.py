"""wrk, and what it says."""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

_UNIT_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}
_MISSING = "wrk is not installed: it makes the load (Debian and Ubuntu: apt-get install wrk)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What wrk measured."""

    requests: int
    per_s: float
    p50_ms: float
    p99_ms: float
    errors: int


def require_wrk() -> None:
    if shutil.which("wrk") is None:
        raise SystemExit(_MISSING)


def wrk(url: str, body: Mapping[str, object], headers: Mapping[str, str], *, connections: int, seconds: int) -> Load:
    """A closed loop of so many connections from one thread; wrk knows whole seconds only."""
    script = ['wrk.method = "POST"', f"wrk.body = {_lua(json.dumps(body, separators=(',', ':')))}"]
    script += [f"wrk.headers[{_lua(name)}] = {_lua(value)}" for name, value in headers.items()]
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write("\n".join(script))
        file.flush()
        command = [
            "wrk",
            "-t1",
            f"-c{connections}",
            f"-d{seconds:g}s",
            "--timeout",
            "30s",
            "--latency",
            "-s",
            file.name,
        ]
        said = subprocess.run([*command, f"{url}/v1/chat/completions"], capture_output=True, text=True, check=True)
    return _parse(said.stdout)


def _parse(text: str) -> Load:
    def number(pattern: str) -> float:
        found = re.search(pattern, text)
        return float(found[1]) if found else 0.0

    def quantile(percent: int) -> float:
        found = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s|m)\b", text)
        return float(found[1]) * _UNIT_MS[found[2]] if found else 0.0

    sockets = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    errors = int(number(r"Non-2xx or 3xx responses: (\d+)")) + sum(map(int, sockets.groups() if sockets else ()))
    return Load(
        requests=int(number(r"(\d+) requests in")),
        per_s=number(r"Requests/sec:\s+([\d.]+)"),
        p50_ms=quantile(50),
        p99_ms=quantile(99),
        errors=errors,
    )


def _lua(text: str) -> str:
    """A Lua string: plain ASCII is quoted as in JSON."""
    assert text.isascii()
    return json.dumps(text)
