"""A stateless HTTP service that turns text into token ids, exactly, and counts them."""

__version__ = "0.1.0"
