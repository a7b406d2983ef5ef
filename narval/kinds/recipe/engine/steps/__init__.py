"""Steps: their inputs, the calls they make, and the returns."""
