"""Pure decisions: no event loop, no clock, no randomness of its own, no logging, no I/O. Events in, effects out."""
