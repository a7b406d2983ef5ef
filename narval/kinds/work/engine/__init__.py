"""The engine of work: items that are offered to people, claimed and answered."""
