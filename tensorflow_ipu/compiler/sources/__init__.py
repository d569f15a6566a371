"""Where ops come from in the user's program."""
