"""The daemon of a home: assembled, opened, watched, reloaded, closed."""
