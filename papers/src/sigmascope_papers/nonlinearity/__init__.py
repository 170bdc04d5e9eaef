"""Bouniot et al., CVPR 2025, arXiv:2310.11439: figures, tables, and what goes beyond them."""
