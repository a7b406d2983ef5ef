"""Operations: everything that may be asked of a daemon, each once; surfaces derive from them."""
