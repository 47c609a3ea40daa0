from datetime import UTC, datetime
from decimal import Decimal

from pulsegate.core.money import Tokens
from pulsegate.pricing.published import published_price

AT = datetime(2026, 12, 1, tzinfo=UTC)
RATE = Decimal(7)


def test_a_known_model_has_a_price_with_its_source():
    price = published_price(
        "deepseek-chat", base_url="https://api.deepseek.com/v1", provider="ds", at=AT, cny_per_usd=RATE
    )
    assert price is not None
    assert price.version.startswith("genai-prices ")
    assert price.version.endswith(" USD/M at 7")
    assert price.of_tokens(Tokens(prompt=1000, completion=1000)) > 0
    assert price.of_tokens(Tokens(prompt=1000, cached=1000)) < price.of_tokens(Tokens(prompt=1000))


def test_a_provider_is_found_by_name_when_nobody_knows_its_url():
    price = published_price(
        "deepseek-chat", base_url="https://llm.example.com/v1", provider="deepseek", at=AT, cny_per_usd=RATE
    )
    assert price is not None


def test_prices_by_size_of_the_prompt_are_kept():
    price = published_price(
        "gemini-2.5-pro",
        base_url="https://generativelanguage.googleapis.com",
        provider="google",
        at=AT,
        cny_per_usd=RATE,
    )
    assert price is not None
    assert [rates.from_prompt for rates in price.rates] == [0, 200_000]
    assert price.rates[1].input > price.rates[0].input


def test_unknown_models_and_unknown_rates_have_no_price():
    known = {"base_url": "https://api.deepseek.com", "provider": "deepseek", "at": AT}
    assert published_price("no-such-model", **known, cny_per_usd=RATE) is None
    assert published_price("deepseek-chat", **known, cny_per_usd=None) is None
    elsewhere = {"base_url": "https://llm.example.com", "provider": "example", "at": AT, "cny_per_usd": RATE}
    assert published_price("deepseek-chat", **elsewhere) is None
