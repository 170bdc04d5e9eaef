"""Networks and data by name; only this package imports torchvision, timm and transformers."""

from sigmascope.catalog.datasets import DATA, Data, data, data_names
from sigmascope.catalog.entry import Model
from sigmascope.catalog.models import model, model_names
from sigmascope.catalog.transforms import Transform

__all__ = ["DATA", "Data", "Model", "Transform", "data", "data_names", "model", "model_names"]
