"""Places outside as settings name them: services that are asked, sources that dataflows read."""
