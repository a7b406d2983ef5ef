"""HTTP: the front of the monitor, which knows askers but no pages, and the requests of programs."""
