"""Watching a forward pass: which calls are activations, who makes them, and what their tensors
mean.
"""
