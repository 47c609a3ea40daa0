"""Prices that others publish."""
