"""Custom ops of users: the ops and expressions behind `custom_ops`."""
