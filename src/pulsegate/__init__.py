"""Pulsegate: an LLM gateway that knows which inference server is truly alive."""

from pulsegate.status.request_id import RequestIdMiddleware

__all__ = ["RequestIdMiddleware", "__version__"]

__version__ = "0.1.0"
