"""Classifies a failed answer, once: which of the fault classes a status, an error body or an error event amounts to.

Decides the class, not what becomes of the endpoint. Connections that fail are classified where they are opened.

How it is read, first match wins:

1. *Who is to blame.* A 4xx blames the request, and its message may quote the request, so words in it prove nothing
   about the device, unless the message *begins* as only a broken server's does. 424 (TGI) blames the server.
2. *The words*, most serious first: device, engine process, asleep, starting, money, full.
3. *The status*, the one in the body if it names one: a gateway's 200 around ``{"error": {"code": 502}}`` is a 502.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pulsegate.core.probe import Fault, FaultClass
from pulsegate.core.refusal_words import BILLING_CODES, BILLING_WORDS, TOO_LARGE_WORDS, any_of
from pulsegate.core.retry_after import seconds_asked
from pulsegate.engines.error_body import ErrorBody, read_error_body, read_error_value
from pulsegate.engines.redaction import presentable

JUDGED_CHARS: Final = 4096
"""How much of an error is looked at: patterns on a megabyte would hold up every other probe."""
_LAST_CHARS: Final = 1024  # of those: tracebacks say what it was in their last line

# The device or its context is broken. CUDA first, then the same for HIP, Ascend, Vulkan, Metal, MUSA, oneAPI.
_DEVICE: Final = any_of(
    r"\bcuda[ _]?(?:runtime |driver |kernel )?(?:error|failure|exception)",
    r"\bcuda out of memory",
    r"\boutofmemoryerror",
    r"\bout of (?:device |gpu |video |accelerator )?memory",
    r"illegal memory access|misaligned address|illegal instruction was encountered|unspecified launch failure",
    r"device-side assert|no kernel image is available",
    r"\bcu(?:blas|dnn|solver|sparse)(?:lt)?[ _]?(?:error|_?status|failure|exception)",
    r"\bxid\b\W{0,12}\d",
    r"\b(?:nccl|rccl|hccl)(?:[A-Z][A-Za-z]*Error|\W{0,3}(?:error|timeout|failure|communicator|watchdog|remote))",
    r"\bnccl\w*error|unhandled (?:cuda|system) error",
    r"uncorrectable ecc|double[- ]bit ecc|\becc error|fallen off the bus|gpu is lost",
    r"\bdevice[ _]?lost|error_device_lost|errordevicelost",
    r"\bhip(?:[ _]?error|blas\w*[ _]?(?:error|status))|\brocm error|\brocblas\w*[ _]?(?:error|status)",
    r"\b(?:acl|aclnn|aclrt|npu|ascend|musa|xpu|sycl|metal)\w*[ _]?(?:error|exception|failure)\b|\baclnn\w+ failed",
    r"\bcuda(?:malloc|\w+ failed)|unable to allocate (?:cuda|rocm|hip|vulkan|metal)",
    r"command buffer (?:failed|execution failed)|iogpucommandbuffer",
)

# The process that computes is gone, whatever stands before it.
_ENGINE_DEAD: Final = any_of(
    r"enginecore encountered an issue|enginecore.{0,20}(?:died|dead|failed|exited)",
    r"engine ?dead ?error|\bengine is dead|\bengine (?:process |loop )?(?:has )?(?:died|crashed|exited)",
    r"engine loop is not running|engine has been shut ?down|executor (?:has been|is) shut ?down",
    r"cannot schedule new futures after (?:interpreter )?shutdown",
    r"background loop (?:has errored|is stopped|is not running|has stopped)",
    r"model runner has unexpectedly stopped|llama runner process (?:has terminated|no longer running)",
    r"\bllm is unavailable",
    r"inference engine is unavailable",
    r"stub process is not healthy|stub process .{0,60}(?:died|exited|terminated)",
    r"(?:executor|worker|workerproc|ray actor|actor|rank|scheduler|detokenizer)\b.{0,40}"
    r"\b(?:died|is dead|has died|crashed|terminated unexpectedly|was killed)",
    r"actordiederror|rayworkererror|worker_?died",
    r"server error: (?:transport error|error trying to connect)",  # TGI's router lost its shard
)

_SLEEPING: Final = any_of(r"\bsleep mode\b|\bis (?:sleeping|asleep)\b|engine is sleep|^sleeping$|\bwake_?up\b")

_STARTING: Final = any_of(
    r"\bloading (?:the )?(?:model|weights)|\b(?:is|still|currently) loading|model .{0,80} loading",
    r"\binitiali[sz]ing\b|\bis starting\b|\bstarting up\b|warming up|\bwarm-?up in progress",
    r"\b(?:is )?not (?:yet )?ready\b|has no available versions",
)

_OVERLOAD: Final = any_of(
    r"overloaded|currently busy|server busy|server is busy|\btoo many (?:requests|concurrent)|rate limit",
    r"queue is full|queue full|maximum pending requests|no (?:free|available) slots?\b|at capacity|over capacity",
    r"exceeds maximum queue size|request queue .{0,20}exceed",
)

_OUTPUT_LIMIT: Final = any_of(
    r"output limit was reached|max_tokens or model output limit",
    r"minimum (?:of|value)\W{0,3}(?:is )?16|(?:>=|at least|greater than or equal to|≥)\W{0,3}16\b",
)
_OUTPUT_LIMIT_CODES: Final = frozenset({"integer_below_min_value"})

_NOT_FOUND_CODES: Final = frozenset({"model_not_found", "notfounderror", "not_found_error"})

# How a message begins when it is the server that failed, even under a 4xx: TGI's 422 inside a stream, Triton's 400.
_SERVER_SPOKE: Final = re.compile(
    r"""\s*(?:(?:[\w.]*(?:error|exception)|internal|server|engine)\s*:\s*)*
    (?: request\ failed\ during\ generation | incomplete\ generation | model\ is\ overloaded
      | (?:failed\ to\ process\ the\ request\(s\)|error\ generating\ stream)
      | stub\ process | cuda[ _](?:error|out) | cuda(?:runtime)?error | enginecore\ encountered | enginedeaderror
      | (?:hip|nccl|cublas|acl|npu)[ _]?(?:error|out) | (?:model|engine)\ .{0,80}is\ (?:not\ ready|sleeping|asleep)
      | request\ for\ unknown\ model .{0,200}no\ available\ versions
    )""",
    re.VERBOSE | re.IGNORECASE,
)

_SERVER_WORDS: Final = (  # most serious first
    (FaultClass.CUDA, _DEVICE),
    (FaultClass.ENGINE_DEAD, _ENGINE_DEAD),
    (FaultClass.SLEEPING, _SLEEPING),
    (FaultClass.STARTING, _STARTING),
    (FaultClass.OVERLOAD, _OVERLOAD),
)
_SERVER_CODES: Final[Mapping[str, FaultClass]] = {
    "enginedeaderror": FaultClass.ENGINE_DEAD,
    "engine_unavailable": FaultClass.ENGINE_DEAD,
    "overloaded": FaultClass.OVERLOAD,
}

_FIRST_ERROR: Final = 400
_FIRST_SERVER_ERROR: Final = 500
_TOO_MANY: Final = 429
_NEVER_STARTING: Final = frozenset({500, 502, 504})  # "error loading model" is no start
_BLAMES_SERVER: Final = frozenset({408, 424, 425, 429, 499})
_BY_STATUS: Final[Mapping[int, FaultClass]] = {
    401: FaultClass.AUTH,
    402: FaultClass.BILLING,
    403: FaultClass.AUTH,
    404: FaultClass.NOT_FOUND,
    407: FaultClass.AUTH,
    408: FaultClass.SERVER,
    410: FaultClass.NOT_FOUND,
    424: FaultClass.SERVER,  # TGI: the shard failed
    425: FaultClass.SERVER,
    429: FaultClass.OVERLOAD,
    499: FaultClass.SERVER,  # LMDeploy: the engine cancelled it
    501: FaultClass.BAD_REQUEST,  # not implemented: this server will never answer it
    529: FaultClass.OVERLOAD,  # Anthropic
}


def classify_answer(
    status: int, body: bytes, headers: Mapping[str, str] | None = None, secrets: tuple[str, ...] = ()
) -> Fault:
    """The fault that a failed answer is.

    Args:
        status: of the answer; a 200 whose JSON body is an error is such an answer too.
        body: as far as it was read; any bytes.
        headers: names in lower case.
        secrets: never to be repeated in ``detail``.
    """
    return _classify(status, read_error_body(body), headers or {}, secrets)


def classify_error(value: object, status: int | None = None, secrets: tuple[str, ...] = ()) -> Fault:
    """The fault that an error inside an answer is.

    Args:
        value: an event of a stream that has an error in it, or the value of its ``error`` field; decoded or as text.
        status: None inside a stream, where the 200 that began it means nothing.
        secrets: never to be repeated in ``detail``.
    """
    return _classify(status, read_error_value(value) or ErrorBody(message=""), {}, secrets)


def _classify(http_status: int | None, told: ErrorBody, headers: Mapping[str, str], secrets: tuple[str, ...]) -> Fault:
    told = replace(told, message=_judged(told.message), codes=tuple(_judged(code) for code in told.codes))
    status = told.status if told.status is not None and told.status >= _FIRST_ERROR else http_status
    failed = status is not None and status >= _FIRST_ERROR
    detail = presentable(told.message, secrets) or presentable(" ".join(told.codes), secrets)
    return Fault(
        kind=_kind(status if failed else None, told),
        detail=detail or (f"HTTP {http_status} with an empty body" if http_status else "an error without a message"),
        status=status if failed else http_status,
        retry_after_s=retry_after(headers),
    )


def _judged(text: str) -> str:
    """The beginning and the end of a long text."""
    if len(text) <= JUDGED_CHARS:
        return text
    return f"{text[: JUDGED_CHARS - _LAST_CHARS]} ... {text[-_LAST_CHARS:]}"


def _kind(status: int | None, told: ErrorBody) -> FaultClass:
    server = (
        status is None
        or status >= _FIRST_SERVER_ERROR
        or status in _BLAMES_SERVER
        or _SERVER_SPOKE.match(told.message) is not None
    )
    text = told.message if told.message.strip() else " ".join(told.codes)
    if server and (kind := _by_server_words(text, told.codes, status)):
        return kind
    if BILLING_CODES.intersection(told.codes) or (status != _FIRST_ERROR and BILLING_WORDS.search(text)):
        return FaultClass.BILLING
    if status is None or (server and status < _FIRST_SERVER_ERROR and status not in _BY_STATUS):
        return FaultClass.SERVER
    return _by_status(status, text, told.codes)


def _by_server_words(text: str, codes: tuple[str, ...], status: int | None) -> FaultClass | None:
    """What a server that blames itself says is wrong."""
    if status == _TOO_MANY:  # full or out of money, which is told apart later
        return FaultClass.BAD_REQUEST if TOO_LARGE_WORDS.search(text) else None
    for kind, pattern in _SERVER_WORDS:
        if pattern.search(text) and not (kind is FaultClass.STARTING and status in _NEVER_STARTING):
            return kind
    return next((kind for code in codes if (kind := _SERVER_CODES.get(code))), None)


def _by_status(status: int, text: str, codes: tuple[str, ...]) -> FaultClass:
    if known := _BY_STATUS.get(status):
        return known
    if status >= _FIRST_SERVER_ERROR:
        return FaultClass.SERVER
    if _OUTPUT_LIMIT.search(text) or _OUTPUT_LIMIT_CODES.intersection(codes):
        return FaultClass.OUTPUT_LIMIT
    if _NOT_FOUND_CODES.intersection(codes):
        return FaultClass.NOT_FOUND
    return FaultClass.BAD_REQUEST


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How long the server asks to be left alone, in seconds, at most an hour."""
    return seconds_asked(headers.get("retry-after", ""), headers.get("date", ""))
