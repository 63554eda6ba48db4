"""The HTTP side: the only part that knows Litestar."""
