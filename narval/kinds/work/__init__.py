"""Work: what people are asked, and what they answer."""
