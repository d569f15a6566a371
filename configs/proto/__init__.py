"""Protocol buffer messages: the options of a system and its trace events."""
