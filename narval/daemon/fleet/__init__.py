"""Fleets: daemons that share a store, and the work of one of them as a member (G46 to G49)."""
