"""Pipeline stages of each kind of model: functional, Sequential and subclassed."""
