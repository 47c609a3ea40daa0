"""The engines that come with Pulsegate: a real llama.cpp in a wheel, for a first look and for tests.

``weights`` says whether there is one, ``llama_server`` is the child process, ``child`` keeps processes on a leash,
``freeze`` hangs one thread of them, ``engines`` puts it together and falls back to simulated engines.
"""
