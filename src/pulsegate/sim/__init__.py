"""A fault-injecting inference server that speaks every dialect."""
