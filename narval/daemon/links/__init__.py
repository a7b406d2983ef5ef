"""Links: what this home and its peers send one another, over whatever connection there is."""
