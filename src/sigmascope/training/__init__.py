"""What everything that trains shares.

`data` reads samples into memory and `feed` splits them and yields batches; `evaluation` has the
accuracy and the checks of settings, labels and divergence; `cuda_graph` captures a training step.
`penalty` adds the scores of activations to a loss (`site_rows` collects their inputs and outputs,
`running_scores` computes), and `scored` does so as a module.
"""
