"""Stores that several daemons share: PostgreSQL, and which daemon may work on which agent."""
