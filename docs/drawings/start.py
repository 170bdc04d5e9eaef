"""The signature of the embedded ResNet-20, as `sig.plot(by="population")` draws it."""

import matplotlib.pyplot as plt

import sigmascope as sg

subject = sg.catalog.model("sigmascope/resnet20")
images = sg.catalog.data("embedded", transform=subject.transform)
sig = sg.signature(subject.network, images, name="ResNet-20", progress=False)
panel = plt.subplots(figsize=(8, 3), layout="constrained")[1]
sg.figures.draw_signature(sig, panel, by="population")
panel.legend(frameon=False, fontsize=8)
