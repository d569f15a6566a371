"""Protocol buffer messages: system options and trace events."""
