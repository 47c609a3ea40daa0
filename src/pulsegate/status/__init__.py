"""The admin API: what the board knows, over HTTP."""
