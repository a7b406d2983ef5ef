"""The engine of what undoes a run: its calls, the last first."""
