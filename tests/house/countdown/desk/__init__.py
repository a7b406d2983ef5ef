"""The standing runs of countdowns: a desk for each that is loaded."""
