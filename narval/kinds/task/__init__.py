"""Tasks: objects that pass through queues, and rules of events."""
