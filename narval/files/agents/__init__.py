"""The files of agents: their settings, their folders, the collections that they follow."""
