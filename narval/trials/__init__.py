"""Trials: definitions explored through all their states, and simulated on a copy of memory."""
