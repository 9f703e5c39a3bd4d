"""What a read needs: batches, parts and row groups, decided on statistics alone, in one place."""
