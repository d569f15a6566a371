"""Options of a Keras model for the IPU: declaration, setters, checks and saving."""
