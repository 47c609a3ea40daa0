"""How often a process of ours looks for garbage."""

import gc


def calm_collector(threshold: int) -> None:
    """Let the cyclic garbage collector rest until there is reason to think that there is garbage.

    Probes and requests make hardly any cycles, but with its default threshold of 700 objects the collector runs several
    times per second over the histories of all endpoints: a third of the CPU with 2,000 endpoints, and stalls of tens of
    milliseconds. One run takes the longer the higher ``threshold`` (objects) is: 80 ms at 50,000 in the prober.
    """
    gc.collect()
    gc.freeze()  # what is here now stays
    gc.set_threshold(threshold, 20, 100)
