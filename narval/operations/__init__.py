"""All one may ask of a daemon, each once."""
