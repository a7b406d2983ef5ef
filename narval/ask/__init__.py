"""Operations: everything that may be asked of a daemon, defined once; surfaces derive from them."""
