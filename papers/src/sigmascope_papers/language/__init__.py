"""Trained language models and real text from ordinary packages, and what is measured on them."""
