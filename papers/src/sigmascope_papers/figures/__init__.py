"""Figures that only the papers draw."""
