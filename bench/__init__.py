"""Measurements. They need a quiet machine and take minutes, so no test runs them."""
