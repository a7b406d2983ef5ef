"""Recipes as written."""
