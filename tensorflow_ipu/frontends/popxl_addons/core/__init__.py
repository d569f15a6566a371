"""What the public modules of the addons share."""
