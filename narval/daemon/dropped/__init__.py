"""Files dropped into folders of a home: each is taken once, or set aside with the reason."""
