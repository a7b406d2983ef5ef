"""The engine that undoes a run: its calls, last first."""
