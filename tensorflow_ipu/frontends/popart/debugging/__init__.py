"""Where nodes of models come from, files that say so, and loggers of PopART."""
