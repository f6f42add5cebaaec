"""The programs that Shardkit is compared with, one per module. peers.serve runs one of them in its own interpreter."""
