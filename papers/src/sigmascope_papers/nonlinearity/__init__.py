"""The paper on non-linearity: a file for each figure and table, and for the claims that we add.

`lineup`, `places`, `trainings` and `cases` are what several of them measure; `published` holds the
paper's numbers.
"""
