"""What an agent knows: elements, who holds them, who waits for them. Pure: no clock, no files, no threads."""
