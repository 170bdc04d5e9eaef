"""Every figure and table of the papers, one small file each.

An item's file says how it is measured, by which rule it is judged and how it is drawn; `item` holds
the words for this, `setting` where signatures come from, `table` the names of all items, and `run`
puts them to work.
"""
