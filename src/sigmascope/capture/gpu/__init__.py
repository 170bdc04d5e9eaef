"""Pooling on an accelerator: input and output of an activation, averaged in one reading."""
