"""The engine of cases: an object with its parts and copies, on their way through tasks."""
