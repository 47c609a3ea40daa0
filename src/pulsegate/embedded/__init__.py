"""The engines that come with Pulsegate: a real llama.cpp in a wheel, for a first look and for tests."""
