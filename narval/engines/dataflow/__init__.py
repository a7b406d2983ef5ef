"""The engine of dataflows: sessions at its borders, and the networks that move their tuples."""
