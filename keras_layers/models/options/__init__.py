"""What a user can set on a model for the IPU: options, setters, checks, and saving them."""
