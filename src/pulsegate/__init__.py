"""Pulsegate: an LLM gateway that knows which inference server is truly alive."""

__version__ = "0.1.0"
