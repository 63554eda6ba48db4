"""Running the application: one process or several, draining, stopping."""
