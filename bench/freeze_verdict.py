"""What the clients of one case saw, summed up, and what of it breaks the case's rule."""

from dataclasses import dataclass

from bench.client import End, Seen, quantile
from bench.freeze_cases import AT_ONCE_S, RESCUE_S, SEEN_S, Case, Rule

_SAME_MOMENT_S = 0.1  # between our clock at the order and the engine's obeying


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What happened in one run. Times on the event loop's clock; None: never, or not known.

    Attributes:
        began_at, over_at: when the engines were troubled, and when they were mended.
        last_sent_s: when the last user's request reached a troubled engine before it was mended, after ``began_at``.
        spared_share: of the requests sent after SEEN_S of trouble, how many a troubled engine served.
    """

    seen: list[Seen]
    began_at: float
    over_at: float
    last_sent_s: float | None = None
    victims: tuple[str, ...] = ()

    def during(self, seen: Seen) -> bool:
        """Sent while the trouble was known and not over."""
        return self.began_at + SEEN_S <= seen.sent_at < self.over_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    case: str
    requests: int
    failed: int
    cut: int
    hung_s: float
    rescued: int
    ttft_p50_ms: float
    latest_s: float
    last_sent_s: float | None
    broken: tuple[str, ...]


def failed(seen: Seen, course: Course) -> bool:
    """Whether its client has lost something that could have been saved, or was left without a word."""
    if seen.end is End.WHOLE:
        return False
    had_token = seen.first_token_at is not None and seen.first_token_at <= course.began_at + _SAME_MOMENT_S
    return not (had_token and seen.end is End.ERROR_EVENT)


def judge(case: Case, course: Course) -> Verdict:
    """The row of the table."""
    rescue_s = (SEEN_S if case.rule is Rule.FALLBACK else RESCUE_S) + case.answer_s
    refused = [each for each in course.seen if _refused_rightly(case, each, course)]
    lost = [each for each in course.seen if failed(each, course) and each not in refused]
    cut = [each for each in course.seen if each.end is End.ERROR_EVENT and each not in lost]
    waits = [each.ttft_s for each in course.seen if each.ttft_s is not None]
    latest_s = max(waits, default=0.0)
    broken = [f"{len(lost)} failed ({_kinds(lost)})"] if lost else []
    if case.rule is not Rule.REFUSED and latest_s > rescue_s:
        broken.append(f"a first token after {latest_s:.2f} s")
    if course.last_sent_s is not None and course.last_sent_s > SEEN_S and case.rule is not Rule.SERVED:
        broken.append(f"sent to the troubled engine {course.last_sent_s:.1f} s after")
    broken += _rule_broken(case, course)
    return Verdict(
        case=case.name,
        requests=len(course.seen),
        failed=len(lost),
        cut=len(cut),
        hung_s=max((each.ended_at - each.sent_at for each in course.seen), default=0.0),
        rescued=sum(each.attempts > 1 for each in course.seen),
        ttft_p50_ms=1000 * quantile(waits, 0.5),
        latest_s=latest_s,
        last_sent_s=course.last_sent_s,
        broken=tuple(broken),
    )


def _rule_broken(case: Case, course: Course) -> list[str]:
    during = [each for each in course.seen if course.during(each)]
    match case.rule:
        case Rule.RESCUED:
            ends = [each for each in course.seen if each.end is End.ERROR_EVENT]
            return ["no stream was under way"] if case.mid_stream_ends and not ends else []
        case Rule.SERVED:
            served = {each.endpoint for each in during}
            return [] if len(served) > 1 else [f"served by {served} alone"]
        case Rule.SPARED:
            wrong = sum(each.endpoint in course.victims for each in during)
            return [f"{wrong} of {len(during)} went to the degraded engine"] if wrong else []
        case Rule.FALLBACK:
            wrong = sum(each.endpoint in course.victims or (each.ttft_s or 9) > AT_ONCE_S for each in during)
            return [f"{wrong} of {len(during)} were not served at once by the fallback"] if wrong else []
        case Rule.REFUSED:
            wrong = sum(not _at_once(each) for each in during)
            after = [each for each in course.seen if each.sent_at > course.over_at and each.end is End.WHOLE]
            return ([f"{wrong} of {len(during)} were not refused at once"] if wrong else []) + (
                [] if after else ["nobody was served after it was over"]
            )


def _refused_rightly(case: Case, seen: Seen, course: Course) -> bool:
    """Nobody could serve it: it must be told so soon, and when to come back."""
    nobody = case.rule is Rule.REFUSED and seen.sent_at >= course.began_at - case.answer_s - _SAME_MOMENT_S
    return nobody and seen.status == 503 and "retry-after" in seen.headers and seen.ended_at - seen.sent_at <= 4.0


def _at_once(seen: Seen) -> bool:
    return seen.status == 503 and seen.ended_at - seen.sent_at <= AT_ONCE_S


def _kinds(lost: list[Seen]) -> str:
    kinds: dict[str, int] = {}
    for each in lost:
        kind = f"{each.end} {each.status or ''} {each.error[:80]}".strip()
        kinds[kind] = kinds.get(kind, 0) + 1
    return "; ".join(f"{count} x {kind}" for kind, count in kinds.items())
