"""What everything that trains shares.

`data` reads samples into memory and `feed` splits them and yields batches; `evaluation` has the
accuracy and the checks of labels and of divergence; `options` the checks of settings, and `replay`
captures a training step on a GPU.
"""
