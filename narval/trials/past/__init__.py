"""Trials on the past: definitions played on what arrived from outside since a day, from store and backups."""
