"""
A survey of networks, and a table for pandas
============================================

``sg.runs.measure_runs`` measures many networks into a directory, and goes on where an earlier call
stopped. ``sg.runs.survey`` does the same on several processes, or on a cluster.
"""

# %%
# Networks are names of the catalog, or functions in your own files. The last name is wrong.

import tempfile

import matplotlib.pyplot as plt
import pandas as pd

import sigmascope as sg

names = [
    "resnet20",
    "resnet32",
    "plain20",
    "plain32",
    "vgg",
    "vit-patch8",
    "swin-small",
    "resnet21",
]
networks = [f"sigmascope/{name}" for name in names]
request = sg.runs.request_for(networks, sg.runs.Selection("embedded", limit=192))
directory = tempfile.TemporaryDirectory()

# %%
# Here the survey is interrupted after three networks. The same call again keeps them, and measures
# the others.

for networks_until_interrupted in (3, len(names)):
    for number, outcome in enumerate(sg.runs.measure_runs(request, directory.name), 1):
        print(f"{outcome.name}: {outcome.state}")
        if number == networks_until_interrupted:
            break

# %%
# A failure is a result like others, with its reason.

runs = sg.load(directory.name)
for name, failure in runs.failures.items():
    print(f"{name}: {failure.message}")

# %%
# One table of all activations, for pandas.

frame = pd.concat(run.signature.to_frame().assign(network=run.signature.name) for run in runs.runs)
print(frame.groupby("network", sort=False)["score"].describe().round(3))

# %%
# Each box is a network, each dot an activation.

figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
groups = {name: part["score"].to_numpy() for name, part in frame.groupby("network", sort=False)}
axes.boxplot(
    list(groups.values()), tick_labels=list(groups), orientation="horizontal", whis=(0, 100)
)
for place, scores in enumerate(groups.values(), 1):
    axes.plot(scores, [place] * len(scores), "o", color="tab:blue", alpha=0.5, markersize=4)
axes.invert_yaxis()
axes.set(xlabel="affinity score", title="All activations of seven networks")
directory.cleanup()
