"""The paper on symmetries: names of its items begin with `sym-`, their files do not."""
