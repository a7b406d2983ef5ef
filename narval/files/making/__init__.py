"""Making a home: from the sample that ships, and from what its owner chose."""
