"""Items whose rules are written and whose networks are not all measured yet; see papers/real.py."""
