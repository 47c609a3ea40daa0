"""Metrics and logs: what happened, for Prometheus and for people."""
