"""Theory of the symmetry paper that only its figures use: orbits, counting, and GELU."""
