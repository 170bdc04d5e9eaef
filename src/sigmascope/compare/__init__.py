"""Signatures side by side: statistics, distances, clustering, embedding, densities, correlations,
fits of accuracy.
"""
