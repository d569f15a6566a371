"""Facts that follow from the ops of a Program: work, trip counts, layers, what replicas share."""
