"""Telling: what definitions do, in plain sentences made of the definitions alone."""
