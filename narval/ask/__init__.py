"""Operations: everything a daemon can be asked, defined once; surfaces derive from them."""
