"""The engine of recipes: steps, transitions, conditions."""
