"""The paper on symmetries: names of its items begin with `sym-`, ours with `beyond-`."""
