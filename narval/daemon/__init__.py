"""A home at work: assembled, opened, watched, reloaded, closed."""
