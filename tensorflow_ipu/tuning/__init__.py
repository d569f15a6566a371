"""Changes of a program that make it fit or faster: edits, stage cuts, search and advice."""
