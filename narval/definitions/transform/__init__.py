"""Stylesheets that are actions."""
