"""Merging linear layers that nothing separates any more.

`folding` has the verb. `tracing` makes a graph of a network, `graph` finds the layers that follow
each other in it, and `functional` the norms among its function calls. `pieces` takes them for
linear maps, `merging` multiplies these, and `layers` computes the product, also at the border.
`choice` decides which merges pay, by `costs` and `latency`. `whole`, `part` and `building` make
them in a network, and `result` and `words` tell what was done.
"""

from sigmascope.linearize.folding.folding import FoldOptions, fold
from sigmascope.linearize.folding.result import Cost, Folded

__all__ = ["Cost", "FoldOptions", "Folded", "fold"]
