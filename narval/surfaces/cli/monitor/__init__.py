"""Commands that show what the pages of the monitor show."""
