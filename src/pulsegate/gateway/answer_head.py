"""An endpoint's answer head, read into what the gateway needs of it. llhttp has validated it before."""

from pulsegate.core.retry_after import seconds_asked
from pulsegate.gateway.heads import NOT_FROM_ENDPOINTS, OUR_PREFIX, connection_named


class AnswerHead:
    """One head.

    Attributes:
        forward: the header lines that go on to the client, as the endpoint spelt them, each with its line end.
        event_stream: the body is an event stream.
        chunked: the body is chunked. ``sized``: it has a Content-Length.
        retry_after_s: how long a refusal asks to be left alone.
    """

    __slots__ = ("chunked", "event_stream", "forward", "retry_after_s", "sized", "status")

    def __init__(self, status: int, raw: bytes) -> None:
        """Read ``raw``: the head without its closing blank line."""
        self.status = status
        self.chunked = False
        self.sized = False
        self.event_stream = False
        self.retry_after_s: float | None = None
        forward: list[bytes] = []
        connection = retry_after = date = b""
        for line in raw.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            key = name.lower()
            if key in NOT_FROM_ENDPOINTS:
                if key == b"content-length":
                    self.sized = True
                elif key == b"transfer-encoding":
                    self.chunked = value.strip().lower() == b"chunked"
                elif key == b"connection":
                    connection = value
                continue
            if key == b"content-type":
                self.event_stream = value.lstrip().startswith(b"text/event-stream")
            elif key == b"retry-after":
                retry_after = value
            elif key == b"date":
                date = value
            elif key.startswith(OUR_PREFIX):
                continue
            forward.append(line)
        if retry_after:
            self.retry_after_s = seconds_asked(retry_after.decode("latin-1"), date.decode("latin-1"))
        if connection and (named := connection_named(connection)):
            forward = [line for line in forward if line.partition(b":")[0].lower() not in named]
        forward.append(b"")
        self.forward = b"\r\n".join(forward)
