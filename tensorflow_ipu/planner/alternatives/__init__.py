"""Plans of a changed program or chip: variations, remedies, stage splits."""
