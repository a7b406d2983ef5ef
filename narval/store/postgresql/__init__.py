"""Stores that several daemons share: PostgreSQL, and the leases that say which daemon may run which agent."""
