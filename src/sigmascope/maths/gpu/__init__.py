"""Batched forms of the arithmetic for an accelerator: many pairs of samples at once."""
