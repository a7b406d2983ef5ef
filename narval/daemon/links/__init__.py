"""Links: the exchange between this home and its peers, over whatever connection there is."""
