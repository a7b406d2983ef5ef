"""The core: decisions and memory, without a clock, randomness, files, threads, sockets or logging."""
