"""
Share a report
==============

``sg.report`` writes signatures as one HTML page: charts, tables, distances and settings. It has no
external parts, so that it can be mailed or kept beside a paper.
"""

# %%
# Three networks on the images that come with the package, and what is known about them.

import tempfile
from pathlib import Path

import sigmascope as sg

signatures, facts = [], {}
for name in ("resnet20", "plain20", "vgg"):
    subject = sg.catalog.model(f"sigmascope/{name}")
    images = sg.catalog.data("embedded", transform=subject.transform)
    signatures.append(sg.signature(subject.network, images, name=name))
    facts[name] = {"accuracy": subject.accuracy}

# %%
# The page, in a directory that is removed in the end. Open yours in a browser.

with tempfile.TemporaryDirectory() as directory:
    page = sg.report(signatures, Path(directory) / "report.html", facts=facts, data="CIFAR-10")
    print(f"{page.name}: {page.stat().st_size / 1e6:.1f} MB")

    # Signatures are files too, and are read back unchanged.
    path = signatures[0].save(Path(directory) / "resnet20.json")
    print(abs(sg.load(path).scores - signatures[0].scores).max())

# %%
# Figures for a paper are drawn by the library, too. Saving one writes its data beside it:
# ``drawn.save("scores.pdf")`` makes ``scores.csv`` as well.

drawn = sg.figures.draw_signatures(signatures, layout="overlaid", by="published")
print(drawn.table[0])
