"""Fleets: daemons that share a store, and what one of them does as a member (G46 to G49)."""
