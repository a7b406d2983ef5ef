"""Work as written: what is asked of people, and what they may answer."""
