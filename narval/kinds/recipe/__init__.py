"""Recipes, and the plans that follow them."""
