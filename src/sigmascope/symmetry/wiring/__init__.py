"""How the channels of a network hang together, found by watching one forward pass.

Every function of torch that the network calls is looked up in a table (`rules`). A row says how the
channels that come out are related to those that went in, and which parameters have to follow. A
tensor without channels is *still*: a move does not change it. The input is still, and what is
computed from still tensors without a weight layer is still. A function outside the table that is
given moving channels is refused, and so is a tensor that was computed out of sight.
"""
