"""The paper on symmetries: a file for each figure and table; names begin with `sym-`, files do not.

`similarities` reads or measures how alike the layers of two networks are, and `pairs` averages that
over pairs of networks.
"""
