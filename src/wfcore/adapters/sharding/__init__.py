"""Several databases behind the ports of one: each call goes to the shard of its organization, or to all shards."""
