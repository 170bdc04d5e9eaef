"""
The affinity score as a metric of torchmetrics
==============================================

``AffinityScore`` takes pairs: what goes into an activation and what comes out. Its state are sums,
which do not grow with the data and are added up over processes.
"""

# %%
# How affine is a ReLU whose inputs have another mean? Far above zero it is the identity; below,
# little passes.
import matplotlib.pyplot as plt
import torch
from torch.nn import functional as F
from torchmetrics import MetricCollection

from sigmascope.integrations.torchmetrics import AffinityScore

activations = {"ReLU": F.relu, "GELU": F.gelu, "SiLU": F.silu, "tanh": torch.tanh}
means = torch.linspace(-2, 2, 17)
torch.manual_seed(0)
scores: dict[str, list[float]] = {}
errors: dict[str, list[float]] = {}
for name, activation in activations.items():
    metric = AffinityScore()
    for mean in means:
        for _ in range(4):
            x = mean + torch.randn(512, 8)
            metric.update(x, activation(x))
        scores.setdefault(name, []).append(float(metric.compute()))
        errors.setdefault(name, []).append(metric.result.stderr)
        metric.reset()

# %%
# In a collection it is called like all others; ``result`` has the interval of the last score.
collection = MetricCollection({"affinity": AffinityScore(), "regularized": AffinityScore(eps=0.1)})
x = torch.randn(2048, 8)
collection.update(x, F.relu(x))
print({name: round(float(value), 3) for name, value in collection.compute().items()})
print(collection["affinity"].result)

# %%
# The score of each activation over the mean of its inputs, with standard errors.
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for name in activations:
    axes.errorbar(means, scores[name], errors[name], label=name, marker="o", markersize=3)
axes.set(xlabel="mean of the inputs", ylabel="affinity score")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
