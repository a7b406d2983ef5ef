"""Links: the exchange between this home and its peers, over any connection."""
