"""
Is the score just another measure of sparsity?
==============================================

Simple measures come for the asking beside the score. ``sg.correlations`` says how much they have in
common with it.
"""

# %%
# ``metrics="all"`` adds linear CKA and R² between input and output, the ratio of norms, and how
# much sparsity and entropy change.

import sigmascope as sg

families = {"with connections": ["resnet20", "resnet32"], "without": ["plain20", "plain32", "vgg"]}
signatures = []
for names in families.values():
    for name in names:
        subject = sg.catalog.model(f"sigmascope/{name}")
        images = sg.catalog.data("embedded", transform=subject.transform, limit=256)
        signatures.append(
            sg.signature(
                subject.network,
                images,
                name=name,
                metrics="all",
                estimator="published",
                progress=False,
            )
        )

# %%
# The score and the measures of one network, for the activations that score lowest.

for site in sorted(signatures[0], key=lambda site: site.score)[:5]:
    values = ", ".join(f"{name} {value:.2f}" for name, value in site.metrics.items())
    print(f"{site.name:<14} score {site.score:.2f}: {values}")

# %%
# Correlations over the activations of each network, and means over families.

family = {name: title for title, names in families.items() for name in names}
correlations = sg.correlations(signatures, families=family)
print(correlations)

# %%
# With residual connections, the score goes with sparsity: activations that switch many inputs off
# are those that are non-linear. Without the connections, less so. CKA and R² come nearest, and none
# of them replaces the score.

drawn = correlations.plot()
