"""Executor of dataflows: networks are driven, and what their operators ask outside is done."""
