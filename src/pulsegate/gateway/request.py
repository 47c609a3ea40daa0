"""What of a request's body routing has to know, and the few places where the body is rewritten.

Everything else in the body passes through byte for byte.
"""

import msgspec

from pulsegate.gateway.errors import ApiError, bad_request


class StreamOptions(msgspec.Struct, frozen=True):
    """``stream_options``, as far as it matters here."""

    include_usage: bool | None = None


class Routing(msgspec.Struct, frozen=True):
    """The routing fields of a body. Types are checked by msgspec; unknown fields are skipped without being built."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = None

    @property
    def wants_usage(self) -> bool:
        """Whether the client itself asked for the usage chunk."""
        options = self.stream_options
        return options is not None and options.include_usage is True


_ROUTING = msgspec.json.Decoder(Routing)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OPTIONS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENCODE = msgspec.json.Encoder().encode


def read_routing(body: bytes) -> Routing | ApiError:
    """The routing fields, or what is wrong with the body."""
    try:
        return _ROUTING.decode(body)
    except msgspec.ValidationError as exc:
        return _wrong_field(str(exc))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if not body.strip():
            return bad_request("empty_body", "The request has no body; send a JSON object.")
        return bad_request("invalid_json", "The request's body is not valid JSON.")


def _wrong_field(told: str) -> ApiError:
    if "missing required field `model`" in told:
        return bad_request("missing_model", "You must provide a model parameter.", "model")
    what, _, where = told.partition(" - at `$")
    if not where:
        return bad_request("invalid_body", "The request's body must be a JSON object.")
    param = where.strip("`.")
    return bad_request("invalid_type", f"{what} for '{param}'.", param)


def may_name_two_models(body: bytes) -> bool:
    r"""Whether somebody behind us could read another model's name in this body than we did.

    Not if the key stands there once, in whatever case, because Go's JSON does not look at it, and none of its letters
    can be hidden: that takes ``\u00..`` (RFC 8259, section 7).
    """
    return body.lower().count(b'"model"') != 1 or body.find(b"\\u00") >= 0


def rewritten(body: bytes, model: str | None, *, ask_usage: bool) -> bytes:
    """The body with another model name and, if asked, ``stream_options.include_usage`` set to true.

    The values of all other fields stay as they were, byte for byte, and keep their order. A field that is given twice
    is sent once, as it was decoded, and no other spelling of ``model``: nobody behind us can read another value than we
    did.
    """
    fields = _FIELDS.decode(body)
    for spelling in [name for name in fields if name.lower() == "model" and name != "model"]:
        del fields[spelling]
    if model is not None:
        fields["model"] = msgspec.Raw(_ENCODE(model))
    if ask_usage:
        given = fields.get("stream_options")
        options = {} if given is None or bytes(given) == b"null" else _OPTIONS.decode(given)
        options["include_usage"] = msgspec.Raw(b"true")
        fields["stream_options"] = msgspec.Raw(_ENCODE(options))
    return _ENCODE(fields)
