"""Heavy calls on a cluster of dask.distributed (G65-G73)."""
