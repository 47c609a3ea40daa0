"""Looking after processes that are not our children."""

import os
import select


def ends_soon(pid: int, within_s: float = 5.0) -> bool:
    """Whether this process ends in that time (or has ended already)."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        ended, _, _ = select.select([process], [], [], within_s)
        return bool(ended)
    finally:
        os.close(process)
