"""What decides what a read needs, and nothing else: batches, parts, row groups, by statistics."""
