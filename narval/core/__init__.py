"""The core: what decides and remembers, without a clock, chance, files, threads, sockets or logging."""
