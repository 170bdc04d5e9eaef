"""Watching a forward pass: its activation calls, and their inputs and outputs as matrices."""
