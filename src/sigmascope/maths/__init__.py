"""Tensors in, tensors out: covariances, affine maps, exact transport; nothing about networks."""
