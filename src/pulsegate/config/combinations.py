"""Keys that exclude or need one another within one section."""

from collections.abc import Iterator

from pulsegate.config import raw
from pulsegate.config.document import Document
from pulsegate.config.errors import Problem
from pulsegate.config.raw import Raw
from pulsegate.config.redaction import KeyPath


def problems(document: Document) -> Iterator[Problem]:
    """Everything that is wrong between the keys of one section."""
    models, providers = raw.mappings(document.data, "models"), raw.mappings(document.data, "providers")
    for path, model in models:
        yield from _model(document, path, model)
    for path, endpoint in raw.endpoints(models):
        yield from _server(document, path, endpoint, str(endpoint.get("url", "")))
    costs = raw.mapping(document.data, "costs")
    yield from _costs(document, costs)
    for path, model in models:
        if "price" in model:
            price = raw.mapping(model, "price")
            yield from _price(document, (*path, "price"), price, has_rate="cny_per_usd" in costs)
    for path, provider in providers:
        yield from _server(document, path, provider, str(provider.get("base_url", "")))
        if {"api_key", "api_keys"} <= provider.keys():
            yield document.problem((*path, "api_keys"), "stands beside `api_key`", "keep one of them", at_key=True)


def _model(document: Document, path: KeyPath, model: Raw) -> Iterator[Problem]:
    if "endpoints" not in model and "provider" not in model:
        fix = "list the URLs of its servers under `endpoints`, or name its `provider`"
        yield document.problem(path, "has neither `endpoints` nor `provider`", fix)
    if {"endpoints", "provider"} <= model.keys():
        fix = "make two models, and name one as a fallback of the other"
        yield document.problem((*path, "provider"), "stands beside `endpoints`", fix, at_key=True)
    elif "provider" in model:
        for key in ("probe", "ejection", "expect"):
            if key in model:
                message = "stands beside `provider`, and hosted models are not probed"
                yield document.problem((*path, key), message, "remove it", at_key=True)
    elif "model" in model:
        yield document.problem(
            (*path, "model"), "stands in a model without `provider`", "set it on the endpoints", at_key=True
        )
    if "expect" in model and "expect" in raw.mapping(model, "probe"):
        message = "stands beside `probe.expect` of the same model"
        yield document.problem((*path, "expect"), message, "keep one of them", at_key=True)


def _price(document: Document, path: KeyPath, price: Raw, *, has_rate: bool) -> Iterator[Problem]:
    tokens = sorted({"input", "cached", "output"} & price.keys())
    if "gpu_hour" in price and tokens:
        message = f"stands beside `{tokens[0]}`: a machine is paid by the hour or by the token"
        yield document.problem((*path, "gpu_hour"), message, "keep one of them", at_key=True)
    elif "gpu_hour" not in price and not {"input", "output"} <= price.keys():
        yield document.problem(path, "needs `input` and `output`, or `gpu_hour`", "free tokens cost 0", at_key=True)
    if price.get("currency") == "USD" and not has_rate:
        message, fix = "is no price without an exchange rate", "set costs.cny_per_usd"
        yield document.problem((*path, "currency"), message, fix)


def _costs(document: Document, costs: Raw) -> Iterator[Problem]:
    if "ledger" in costs:
        return
    for key in ("limit_cny", "provider_limits", "key_limits"):
        if key in costs:
            fix = "add `ledger: ledger.jsonl`"
            yield document.problem(("costs", key), "needs `ledger` beside it: the gate counts there", fix, at_key=True)


def _server(document: Document, path: KeyPath, server: Raw, url: str) -> Iterator[Problem]:
    headers = {name.lower() for name in raw.mapping(server, "headers")}
    if "api_key" in server and "authorization" in headers:
        message = "stands beside a header Authorization"
        yield document.problem((*path, "api_key"), message, "keep one of them", at_key=True)
    tls, at = raw.mapping(server, "tls"), (*path, "tls")
    if tls and url.lower().startswith(("http:", "unix:")):
        yield document.problem(at, "stands beside a URL without TLS", "write https:// or remove it", at_key=True)
    yield from half_a_pair(document, at, tls)
    if tls.get("verify") is False and "ca_file" in tls:
        message = "is not looked at with `verify: false`"
        yield document.problem((*at, "ca_file"), message, "remove one of them", at_key=True)


def half_a_pair(document: Document, at: KeyPath, tls: Raw) -> Iterator[Problem]:
    """A certificate without its key, or a key without its certificate."""
    for key, other in (("cert_file", "key_file"), ("key_file", "cert_file")):
        if key in tls and other not in tls:
            yield document.problem((*at, key), f"needs `{other}` beside it", f"add `{other}`", at_key=True)
