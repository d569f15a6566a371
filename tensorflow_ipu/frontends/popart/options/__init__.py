"""Options of sessions, as tables."""
