"""narval in a program or a test."""
