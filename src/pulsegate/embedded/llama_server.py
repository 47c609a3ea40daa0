"""``python -m pulsegate.embedded.llama_server``: a real llama.cpp HTTP server, run as a child process.

It writes its URL as one line to ``--ready-fd`` once the model is loaded, and ends when its standard input closes.
Small on purpose: 4 slots, one compute thread, so that two of them and a prober share a laptop.
"""

import argparse
import importlib
import os
import sys
from pathlib import Path

_SLOTS = 4
_CONTEXT_TOKENS = 4096  # over all slots
_BATCH_TOKENS = 32  # a step of a few hundred milliseconds: its counters, which move with each step, keep moving
_LOG_WARNINGS = 2  # llama.cpp's verbosity: 1 errors, 2 warnings, 3 information


def main(argv: list[str]) -> None:
    """Serve until standard input closes."""
    parser = argparse.ArgumentParser(prog="pulsegate.embedded.llama_server")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--model", required=True, help="the name it serves the weights under")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--ready-fd", type=int, help="where to write the URL once requests are served")
    args = parser.parse_args(argv)

    xllamacpp = importlib.import_module("xllamacpp")  # an optional part without types, and for this process alone

    params = xllamacpp.CommonParams()
    params.model.path = str(args.weights)
    params.model_alias = {args.model}
    params.hostnames = ["127.0.0.1"]
    params.port = args.port
    params.n_parallel = _SLOTS
    params.n_ctx = _CONTEXT_TOKENS
    params.n_batch = _BATCH_TOKENS
    params.n_ubatch = _BATCH_TOKENS
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.cache_ram_mib = 0  # the default may grow to 8 GiB
    params.endpoint_metrics = True
    params.endpoint_slots = True
    params.verbosity = _LOG_WARNINGS
    server = xllamacpp.Server(params)  # listens at once, answers 503 while it loads, returns when it is loaded

    if args.ready_fd is not None:
        os.write(args.ready_fd, f"{server.listening_address}\n".encode())
        os.close(args.ready_fd)
    sys.stdin.buffer.read()
    os._exit(0)  # an orderly end would wait for the main loop, which may be frozen


if __name__ == "__main__":
    main(sys.argv[1:])
