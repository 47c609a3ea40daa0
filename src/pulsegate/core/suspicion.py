"""Suspicion: an endpoint may be dead, and requests that wait there may be tried elsewhere too. A token ends it.

A probe that timed out is reason enough. So is one that is late, if users wait there in silence as well: two witnesses
that know nothing of each other. A busy endpoint makes both of them wait without being dead.
"""

from pulsegate.core.health import Reason
from pulsegate.core.pool import Pool
from pulsegate.core.watched import Watched


def arouse(watched: Watched, pool: Pool) -> None:
    """Suspect it from now on."""
    if not watched.suspect:
        watched.suspect = True
        pool.touch(watched)


def allay(watched: Watched, pool: Pool) -> None:
    """A token came from there."""
    watched.users_wait = False
    if watched.suspect:
        watched.suspect = False
        pool.touch(watched)


def compare_silences(watched: Watched, pool: Pool) -> None:
    """A probe became late or users began to wait: suspect the endpoint if both do."""
    claim = watched.claim
    if claim is not None and claim.late and watched.users_wait and watched.record.reason is not Reason.BUSY:
        arouse(watched, pool)
