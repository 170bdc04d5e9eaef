"""Every figure and table of the two papers: an item is a Markdown file and a row of a module."""
