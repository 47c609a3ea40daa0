"""``python -m pulsegate.embedded.leash PARENT SIGNAL COMMAND...``: run a command that ends when its parent ends.

The wish to die with the parent survives ``exec``, so any command can be kept on this leash. It is Linux's
PR_SET_PDEATHSIG (prctl(2)); elsewhere the command runs without it.
"""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent: int, signum: int) -> None:
    """Ask the kernel to send this process ``signum`` when ``parent`` ends.

    Raises:
        SystemExit: the parent has gone already.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:  # it ended before we asked, so the signal will never come
        sys.exit(0)


def main(argv: list[str]) -> None:
    """Put the leash on and become the command."""
    parent, signum, *command = argv
    die_with(int(parent), int(signum))
    os.execvp(command[0], command)  # noqa: S606 # no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
