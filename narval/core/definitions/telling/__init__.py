"""Descriptions of what definitions do, in plain sentences generated only from the definitions."""
