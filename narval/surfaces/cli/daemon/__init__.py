"""Commands about a home and its daemon."""
