"""Watching a network while it trains: signatures over its steps."""
