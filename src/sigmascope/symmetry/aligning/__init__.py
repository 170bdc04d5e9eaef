"""Finding the element of a network's symmetry group that brings it closest to another network.

`blocks` reads from the tracing which parameters each set of channels touches; `descent` updates one
set at a time, exactly: `pairs` gives the cost of every pair of channels at its best scale
(`scales`), and an assignment (`matching`) chooses among them. `head_match` does the same for
attention heads and their rotations, and `features` compares channels by what they compute instead
of their weights.
"""
