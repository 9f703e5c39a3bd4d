"""What a deployment says: settings, declared shards, filters; and its machine."""
