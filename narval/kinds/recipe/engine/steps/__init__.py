"""Steps: what they are given, the calls they make, and what comes back."""
