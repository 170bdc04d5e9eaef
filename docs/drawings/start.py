"""The signature of the embedded ResNet-20, as `sig.plot()` draws it."""

import sigmascope as sg

subject = sg.catalog.model("sigmascope/resnet20")
images = sg.catalog.data("embedded", transform=subject.transform)
sg.signature(subject.network, images, name="ResNet-20", progress=False).plot(by="population")
