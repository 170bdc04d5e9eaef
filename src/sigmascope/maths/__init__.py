"""Tensors in, tensors out: covariances, affine maps, exact transport. This package knows no
network.
"""
