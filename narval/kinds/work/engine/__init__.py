"""The engine of work: items that are offered, claimed, answered, by people."""
