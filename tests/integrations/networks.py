"""A network and data that all frameworks train in a second."""

from __future__ import annotations

import torch
from torch import Tensor, nn

CLASSES, WIDTH, BATCH, BATCHES = 3, 8, 16, 4
PROBE = [torch.randn(96, WIDTH, generator=torch.Generator().manual_seed(7)) for _ in range(2)]


class Net(nn.Module):
    """Answers with a loss where it is given labels, as networks of transformers do."""

    accepts_loss_kwargs = False  # a Trainer cannot tell from the signature of a compiled one

    def __init__(self, *, dropout: float = 0.2) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(WIDTH, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(dropout)
        )
        self.head = nn.Sequential(nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, CLASSES))

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor | dict[str, Tensor]:
        logits = self.head(self.body(x))
        if labels is None:
            return logits
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Affine(nn.Module):
    """Has no activation."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor | dict[str, Tensor]:
        logits = self.map(x)
        if labels is None:
            return logits
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Adapted(nn.Module):
    """Stands for a model of PEFT: the network is two levels inside, and is asked for."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.base_model = nn.ModuleDict({"model": network})

    def get_base_model(self) -> nn.Module:
        return self.base_model["model"]

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor | dict[str, Tensor]:
        return self.base_model["model"](x, labels)


def network(**options: float) -> Net:
    torch.manual_seed(0)
    return Net(**options)


class Data(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Labeled samples, as dicts."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(BATCHES * BATCH, WIDTH, generator=generator)
        self.labels = torch.randint(0, CLASSES, (BATCHES * BATCH,), generator=generator)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, place: int) -> dict[str, Tensor]:
        return {"x": self.x[place], "labels": self.labels[place]}


def batches() -> torch.utils.data.DataLoader:  # type: ignore[type-arg]
    return torch.utils.data.DataLoader(Data(), batch_size=BATCH)


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
