"""Write docs/states.md from the transition table."""

from pathlib import Path

from pulsegate.core.statedoc import render

PAGE = Path(__file__).parent.parent / "docs" / "states.md"

if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
