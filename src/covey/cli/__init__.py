"""The command line: settings in, runs and reports out. Nothing is decided here that the Python API does not offer."""
