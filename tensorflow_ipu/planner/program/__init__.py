"""Structure of a Workload: sections, layers, placement and dependences of its ops."""
