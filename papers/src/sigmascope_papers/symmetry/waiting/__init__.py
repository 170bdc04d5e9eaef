"""Items with their rules, which wait for measurements."""
