"""Running operators: a class for each that needs nothing from outside, and one for all others."""
