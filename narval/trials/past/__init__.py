"""Trials on the past: definitions played on arrivals from outside since a day, from store and backups."""
