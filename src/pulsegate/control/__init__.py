"""Orchestration on asyncio: when to probe, whom to tell. Owns the ports that the adapters implement."""
