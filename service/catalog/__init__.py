"""Pinned artifacts: the lock, the check of every byte, and the frozen catalog of tokenizers."""
