"""Signatures in, one self-contained HTML page out.

`document` says in plain numbers what the page shows, `settings` how it was measured, and `page`
puts the numbers, the scripts and the style sheet into one file.
"""
