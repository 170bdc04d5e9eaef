"""Networks of torch-geometric on one small graph, whose nodes are the samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from network import Built, Case, noise

NODES, WIDTH = 12, 8
SIZES = {"in_channels": WIDTH, "hidden_channels": 16, "num_layers": 3, "out_channels": 4}
NETWORKS: dict[str, Callable[[Any], Any]] = {
    "GCN": lambda models: models.GCN(**SIZES),
    "GraphSAGE": lambda models: models.GraphSAGE(**SIZES, act="elu", jk="cat"),
    "GIN": lambda models: models.GIN(**SIZES, act="leaky_relu"),
    "GAT": lambda models: models.GAT(**SIZES, heads=2, act="gelu"),
    "GATv2": lambda models: models.GAT(**SIZES, heads=2, v2=True),
    "EdgeCNN": lambda models: models.EdgeCNN(**SIZES),
    "PMLP": lambda models: models.PMLP(**SIZES),
    "GraphUNet": lambda models: models.GraphUNet(WIDTH, 16, 4, depth=2),
    "PNA": lambda models: models.PNA(
        **SIZES, aggregators=["mean", "max"], scalers=["identity"], deg=torch.tensor([0, 4, 8])
    ),
    "SGFormer": lambda models: models.SGFormer(WIDTH, 16, 4),
    "Polynormer": lambda models: models.Polynormer(WIDTH, 16, 4),
    "DeepGCNLayer": lambda models: _deep(models),
}


def cases() -> list[Case]:
    return [Case(f"torch_geometric/{name}", lambda name=name: build(name)) for name in NETWORKS]


def build(name: str) -> Built:
    import torch_geometric.nn.models as models

    torch.manual_seed(0)
    model = NETWORKS[name](models)
    ring = torch.arange(NODES)
    forth = torch.stack([ring, (ring + 1) % NODES])
    edges = torch.cat([forth, forth.flip(0), torch.stack([ring, (ring + 5) % NODES])], dim=1)
    nodes = noise(WIDTH, samples=NODES)
    batch = {"x": nodes, "edge_index": edges}
    if name in ("SGFormer", "Polynormer"):
        batch["batch"] = torch.zeros(NODES, dtype=torch.long)
    return Built(model, batch)


def _deep(models: Any) -> Any:
    from torch import nn
    from torch_geometric.nn import GENConv, LayerNorm

    convolution = GENConv(WIDTH, WIDTH, aggr="softmax", learn_t=True)
    layer = models.DeepGCNLayer(convolution, LayerNorm(WIDTH), nn.ReLU(), block="res+")

    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any, edge_index: Any) -> Any:
            return self.layer(x, edge_index)

    return Deep()
