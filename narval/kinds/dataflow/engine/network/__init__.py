"""The network of a dataflow: one transaction as a machine that a driver advances."""
