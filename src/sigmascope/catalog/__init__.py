"""Networks and data by name; the only place where torchvision, timm, transformers and their like are imported."""

from sigmascope.catalog.datasets import DATA, Data, data
from sigmascope.catalog.models import Model, model, model_names

__all__ = ["DATA", "Data", "Model", "data", "model", "model_names"]
