"""The engine of instances of tasks."""
