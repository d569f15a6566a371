"""Neural-network arithmetic: group normalization, parallel convolutions, sampled losses."""
