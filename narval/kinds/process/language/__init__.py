"""Processes as written, with their code, joins and guards."""
