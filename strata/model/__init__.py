"""The words of the system as frozen values: no I/O, no Arrow."""
