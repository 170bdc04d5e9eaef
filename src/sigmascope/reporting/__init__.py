"""One self-contained HTML page of signatures.

`document` collects what the page shows as plain numbers, `provenance` how it was measured, and
`page` puts the numbers, the scripts and the style sheet into one file.
"""
