"""Places outside that settings name: services for requests, sources for dataflows."""
