"""The programs that Shardkit is compared with, each in a module of its own; peers.serve runs one in its own interpreter."""
