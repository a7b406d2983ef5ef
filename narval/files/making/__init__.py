"""Making a home from the sample that ships and the owner's choices."""
