"""Soft evaluation and format checks: nothing that statistics say is taken on trust."""
