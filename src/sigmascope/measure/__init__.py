"""From samples to numbers: the affinity score."""
