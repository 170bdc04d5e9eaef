"""Modules that go into a network: `Scored`, and the penalty of all of them in a network."""

from sigmascope.training.scored import Scored, affinity_penalty, set_scoring

__all__ = ["Scored", "affinity_penalty", "set_scoring"]
