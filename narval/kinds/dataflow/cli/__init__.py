"""The commands that run one file in the foreground, without a home."""
