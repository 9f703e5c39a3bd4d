"""The rollout of skipping: evidence, gates, steps with approval, and the switch that stops all."""
