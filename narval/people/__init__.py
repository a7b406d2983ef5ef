"""The ways to people that are no surfaces: what is carried to them, and what comes back."""
