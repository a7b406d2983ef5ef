"""Language models: how one is asked, and what that costs."""
