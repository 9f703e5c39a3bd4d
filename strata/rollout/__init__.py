"""The rollout of skipping: evidence, gates, steps with approval, and the kill switch."""
