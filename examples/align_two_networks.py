"""
Align two networks and average them
===================================

Two networks that were trained from different seeds compute similar functions with weights in
different coordinates. The mean of their weights is useless, until one of them is brought into the
coordinates of the other by a symmetry that does not change what it computes.
"""

# %%
# Two networks of one architecture. The weights are those of the zoo of a checkout; the images are
# embedded in the package.

import torch

import sigmascope as sg

a, b = (sg.catalog.model(f"sigmascope/myrtle-nobn:{seed}") for seed in (0, 1))
data = sg.catalog.data("embedded", transform=a.transform, batch_size=48, limit=48)

# %%
# ``align`` finds the permutation and the positive scale of every channel that bring the weights of
# ``b`` closest to those of ``a``. It prints the cosine of each layer, before and after.

found = sg.symmetry.align(a.network, b.network)
print(found)

# %%
# The aligned network computes the same function as ``b``.

images = next(iter(data))[0]
print(sg.symmetry.check_equivalence(b.network, found.apply(b.network), images))

# %%
# A network that was moved at random is found again, to the last digits.

original = a.network.double()
moved = sg.symmetry.move(original, seed=0)
again = sg.symmetry.align(original, moved).apply(moved)
pairs = zip(original.parameters(), again.parameters(), strict=True)
print(max(float((p - q).detach().abs().max()) for p, q in pairs))
original.float()

# %%
# The loss along the straight line between the two networks, before and after aligning. Means of
# weights have features that vary too little; the corrected curves have their statistics repaired.

with torch.no_grad():
    line = sg.symmetry.barrier(a.network, b.network, data, alignment=found, points=5)
print(line)
drawn = line.plot()
