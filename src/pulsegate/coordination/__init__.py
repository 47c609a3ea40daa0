"""Backends through which several gateways share their probes: adapters of ``control.coordination``."""
