"""The network of a dataflow: one transaction of it as a machine that whoever drives it pushes on."""
