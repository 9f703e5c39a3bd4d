"""Source values made into typed columns."""
