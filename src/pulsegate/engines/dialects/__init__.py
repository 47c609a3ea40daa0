"""One module per kind of engine: its probe request, its counters, its error shapes, how it looks while starting."""
