"""Work as written: what people are asked, and what they may answer."""
