"""Commands that try definitions without doing anything: simulate, and check --explore."""
