"""IPU devices, the configuration in force, and the native engine with its ops and events."""
