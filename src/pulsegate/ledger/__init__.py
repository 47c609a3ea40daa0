"""The ledger: one JSON line per attempt in append-only files, and what can be told from them."""
