"""From samples and networks to numbers: the affinity score, its companions, the signature."""
