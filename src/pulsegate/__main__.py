"""Entry point for ``python -m pulsegate``."""

from pulsegate.cli import main

if __name__ == "__main__":
    main()
