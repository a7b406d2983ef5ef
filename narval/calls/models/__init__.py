"""Language models: requests to them, and their cost."""
