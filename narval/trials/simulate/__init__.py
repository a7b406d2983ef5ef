"""Try before it acts: definitions on a copy of memory, with a clock of their own."""
