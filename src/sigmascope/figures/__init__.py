"""Results in, matplotlib axes out."""
