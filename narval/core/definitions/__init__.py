"""Definitions of every kind: parsed once, checked, never altered."""
