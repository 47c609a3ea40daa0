"""What providers' refusals amount to, by the shapes that they have in the field."""

import pytest

from pulsegate.core.provider_fault import ProviderFault, provider_fault

CASES = {
    "deepseek, no balance": (402, ("invalid_request_error",), "Insufficient Balance", "billing"),
    "deepseek, wrong key": (401, ("authentication_error",), "Authentication Fails (no such user)", "auth"),
    "deepseek, busy": (503, (), "The server is overloaded", "busy"),
    "deepseek, wrong parameters": (422, ("invalid_request_error",), "max_tokens is too large", "request"),
    "deepseek, failing": (500, (), "Internal Server Error", "outage"),
    "zhipu, no money in a 429": (429, ("1113",), "余额不足或无可用资源包,请充值。", "billing"),
    "zhipu, no money in English": (429, ("1113",), "no balance or resource package", "billing"),
    "zhipu, rate limit": (429, ("1302",), "您当前使用该API的并发数过高", "rate_limit"),
    "zhipu, provider busy": (429, ("1305",), "当前API请求过多,请稍后重试", "busy"),
    "zhipu, wrong key": (401, ("1000",), "身份验证失败", "auth"),
    "zhipu, unknown model": (400, ("1211",), "模型不存在,请检查模型代码", "not_found"),
    "zhipu, sensitive": (400, ("1301",), "系统检测到输入或生成内容可能包含不安全或敏感内容", "request"),
    "dashscope, arrears in a 400": (400, ("arrearage",), "Access denied, please make sure ...", "billing"),
    "dashscope, free tier over": (403, ("allocationquota.freetieronly",), "The free tier ...", "billing"),
    "dashscope, throttled": (429, ("throttling.ratequota",), "Requests rate limit exceeded", "rate_limit"),
    "dashscope, wrong key": (401, ("invalid_api_key",), "Incorrect API key provided.", "auth"),
    "dashscope, too long": (400, (), "Range of input length should be [1, 30720]", "too_large"),
    "dashscope, unknown model": (404, ("model_not_found",), "The model `x` does not exist", "not_found"),
    "moonshot, no quota": (429, ("exceeded_current_quota_error",), "Your account is suspended", "billing"),
    "moonshot, engine overloaded": (429, ("engine_overloaded_error",), "The engine is overloaded", "busy"),
    "siliconflow, no balance": (403, ("30001",), "Sorry, your account balance is insufficient", "billing"),
    "openai, no quota": (429, ("insufficient_quota",), "You exceeded your current quota", "billing"),
    "openai, rate limit": (429, ("rate_limit_exceeded",), "Rate limit reached for gpt-4o", "rate_limit"),
    "openrouter, no credit": (402, ("402",), "This request requires more credits", "billing"),
    "openrouter, flagged input": (403, ("403",), "Input was flagged by moderation", "request"),
    "openrouter, provider failed": (502, ("502",), "Provider returned error", "outage"),
    "groq, one request too large": (
        429,
        (),
        "Request too large for model x: Limit 12000, Requested 15318",
        "too_large",
    ),
    "context too long": (400, ("context_length_exceeded",), "maximum context length is 8192 tokens", "too_large"),
    "a body too large": (413, (), "", "too_large"),
    "a prompt that talks of money": (400, (), "invalid message: 'insufficient balance'", "request"),
    "an error event without a status": (None, (), "upstream went away", "outage"),
    "an error event about load": (None, (), "model is overloaded", "busy"),
    "a time-out of theirs": (408, (), "", "outage"),
    "a redirect": (302, (), "", "outage"),
}


@pytest.mark.parametrize(("status", "codes", "message", "expected"), CASES.values(), ids=CASES.keys())
def test_class(status, codes, message, expected):
    assert provider_fault(status, codes, message) is ProviderFault(expected)
