"""Comparisons of signatures: statistics, distances, clusters, densities, correlations, fits."""
