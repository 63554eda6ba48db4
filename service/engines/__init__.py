"""Faster engines behind their guard: a format's tokenizer is wrapped, never replaced."""
