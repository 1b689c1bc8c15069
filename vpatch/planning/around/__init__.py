"""The code around what a patch reads, with digests of what it means."""
