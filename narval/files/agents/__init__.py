"""The files of agents: their settings, their folders, and the collections they follow."""
