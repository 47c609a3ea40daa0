"""How to take one token from each kind of inference server, and what its answers mean."""
