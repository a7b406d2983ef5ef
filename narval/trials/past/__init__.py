"""Trials on the past: definitions played on what came from outside since a day, from store and backups."""
