"""How the channels of a network are connected, found by tracing one forward pass.

Every torch function that the network calls is looked up in a table (`rules`). A row says how the
channels of the output are related to those of the input, and which parameters have to follow. A
tensor without channels is *still*: a move does not change it. The input is still, and so is what is
computed from still tensors without a weight layer. A function outside the table that is given
moving channels is refused, and so is a tensor that was computed out of sight.
"""
