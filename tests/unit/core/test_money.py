from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsegate.core.money import Currency, Price, Rates, Tokens, time_price, token_price

D = Decimal
DEEPSEEK = Rates(input=D(2), cached=D("0.5"), output=D(8))


def priced(*rates: Rates, currency: Currency = Currency.CNY, rate: Decimal | None = None) -> Price:
    price = token_price("config", rates, currency, rate)
    assert price is not None
    return price


def test_fresh_cached_and_output_tokens_each_have_their_price():
    cost = priced(DEEPSEEK).of_tokens(Tokens(prompt=1_000_000, cached=400_000, completion=250_000))
    assert cost == D("1.2") + D("0.2") + D(2)


def test_the_smallest_cost_is_exact():
    assert priced(DEEPSEEK).of_tokens(Tokens(prompt=1, cached=1)) == D("0.0000005")


def test_usd_is_made_cny_and_the_version_says_at_which_rate():
    price = priced(DEEPSEEK, currency=Currency.USD, rate=D("7.10"))
    assert price.of_tokens(Tokens(prompt=1_000_000)) == D("14.2")
    assert price.version == "config: 2/0.5/8 USD/M at 7.1"


def test_without_an_exchange_rate_there_is_no_price_for_usd():
    assert token_price("config", (DEEPSEEK,), Currency.USD, None) is None
    assert time_price("config", D(2), Currency.USD, None) is None


def test_large_prompts_pay_their_rate_for_all_their_tokens():
    large = Rates(input=D(4), cached=D(1), output=D(16), from_prompt=200_000)
    price = priced(DEEPSEEK, large)
    assert price.of_tokens(Tokens(prompt=199_999)) == 199_999 * D("0.000002")
    assert price.of_tokens(Tokens(prompt=200_000)) == 200_000 * D("0.000004")
    assert price.version == "config: 2/0.5/8; 200000+ 4/1/16 CNY/M"


def test_gpu_time_is_shared_by_those_who_use_it():
    price = time_price("config", D(36), Currency.CNY, None)
    assert price is not None
    assert price.of_time(D(1000), D(1)) == D("0.01")
    assert price.of_time(D(1000), D(4)) == D("0.0025")


@pytest.mark.parametrize("changed", [D("2.01"), D(3)])
def test_another_price_is_another_version(changed):
    other = Rates(input=changed, cached=D("0.5"), output=D(8))
    assert priced(other).version != priced(DEEPSEEK).version


amounts = st.decimals(min_value=0, max_value=1000, places=4)
counts = st.integers(min_value=0, max_value=10**8)


@given(amounts, amounts, amounts, st.lists(st.tuples(counts, counts), max_size=20))
def test_the_sum_of_costs_is_the_cost_of_the_sums(input_, cached, output, used):
    price = priced(Rates(input=input_, cached=cached, output=output))
    each = sum((price.of_tokens(Tokens(prompt=p, cached=p // 2, completion=c)) for p, c in used), D())
    together = Tokens(
        prompt=sum(p for p, _ in used), cached=sum(p // 2 for p, _ in used), completion=sum(c for _, c in used)
    )
    assert each == price.of_tokens(together)
