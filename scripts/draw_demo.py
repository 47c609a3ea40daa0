"""Runs ``pulsegate demo`` and draws what it printed into docs/img/demo.svg, the picture of the README."""

import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "img" / "demo.svg"
WIDTH = 112


def main() -> int:
    command = [str(ROOT / ".venv" / "bin" / "pulsegate"), "demo"]
    environment = os.environ | {"FORCE_COLOR": "1", "COLUMNS": str(WIDTH)}  # noqa: TID251 - a script of its own
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout)
    if done.returncode == 0:
        console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
        console.print(Text.from_ansi(done.stdout))
        PICTURE.parent.mkdir(parents=True, exist_ok=True)
        console.save_svg(str(PICTURE), title="pulsegate demo")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
