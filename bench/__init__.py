"""Our side of each benchmark, and the runner that pairs it with the peers."""
