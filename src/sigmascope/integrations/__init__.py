"""Watching trainings of other frameworks: one small module for each of them.

`sigmascope.integrations.lightning.SignatureCallback`,
`sigmascope.integrations.huggingface.SignatureCallback` and
`sigmascope.integrations.torchmetrics.AffinityScore`. They derive from classes of packages that are
optional, so that each is made when it is first asked for. Loops of your own and `accelerate` need
no more than `sigmascope.Monitor`.
"""
