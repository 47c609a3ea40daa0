"""Users' requests at an engine: so many at a time, streamed, each read to its end, for as long as the load runs."""

import json
import socket
import threading
from urllib.parse import urlsplit

_READ_BYTES = 65536


class UserLoad:
    """``concurrency`` users who each ask for ``tokens`` tokens again and again.

    Counts what they got, so that a test can say that the engine was really loaded: ``finished`` answers and
    ``failed`` exchanges (errors before :meth:`stop`).
    """

    def __init__(self, url: str, model: str, *, concurrency: int, tokens: int) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname, parts.port)
        self._model = model
        self._tokens = tokens
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self.finished = 0
        self.failed: list[str] = []
        self._threads = [threading.Thread(target=self._user, args=(n,), daemon=True) for n in range(concurrency)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exc):
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def wait(self, seconds: float) -> None:
        """Let it run."""
        self._stopping.wait(seconds)

    def _user(self, number: int) -> None:
        round_ = 0
        while not self._stopping.is_set():
            round_ += 1
            try:
                self._ask(f"User {number} asks question {round_}: tell me a story about")
            except OSError as exc:
                with self._lock:
                    self.failed.append(repr(exc))
                self._stopping.wait(0.2)

    def _ask(self, prompt: str) -> None:
        body = json.dumps(
            {
                "model": self._model,
                "prompt": prompt,
                "max_tokens": self._tokens,
                "ignore_eos": True,
                "temperature": 0,
                "stream": True,
            }
        ).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {self._address[0]}\r\nContent-Type: application/json\r\n"
        with socket.create_connection(self._address, timeout=1.0) as connection:
            connection.sendall(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
            tail = b""
            while not self._stopping.is_set():
                try:
                    data = connection.recv(_READ_BYTES)
                except TimeoutError:  # a queue can be long; look whether we are to stop
                    continue
                if not data:
                    with self._lock:
                        self.finished += b"[DONE]" in tail
                        if b"[DONE]" not in tail:
                            self.failed.append(f"ended with {tail[-80:]!r}")
                    return
                tail = (tail + data)[-200:]
