"""Theory that only the figures of Godfrey et al., NeurIPS 2022, arXiv:2205.14258, use."""
