"""Files that are dropped into folders of a home: they are taken once, or set aside with the reason."""
