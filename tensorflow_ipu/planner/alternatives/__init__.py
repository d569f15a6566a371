"""Plans of a changed program or target: what-if, remedies, stage splits."""
