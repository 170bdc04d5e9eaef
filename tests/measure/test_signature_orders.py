"""Samples in another order, packed, or as nodes of graphs; each against matrices made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import sigmascope as sg

N = 40


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def score(x: Tensor, activation: Any) -> float:
    with torch.no_grad():
        return float(sg.affinity(x, activation(x)))


class Sorting(nn.Module):
    """Sorts its samples, and puts them back in one of three ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.way = nn.Linear(6, 5), way

    def forward(self, x: Tensor) -> Tensor:
        order = x.sum(1).argsort()
        h = F.relu(self.linear(x[order]))
        if self.way == "index":
            h = h[order.argsort()]
        elif self.way == "select":
            h = h.index_select(0, torch.empty_like(order).scatter_(0, order, torch.arange(N)))
        elif self.way == "write":
            result = torch.zeros_like(h)
            result[order] = h
            h = result
        elif self.way == "copy":
            h = torch.zeros_like(h).index_copy_(0, order, h)
        else:
            h = h[order]  # another order
        return torch.tanh(h)


@pytest.mark.parametrize("way", ["index", "select", "write", "copy"])
def test_sorted_and_put_back(way: str) -> None:
    model, x = Sorting(way), normal(N, 6)
    hidden = model.linear(x).detach()
    # a second batch, in which the order is another one
    batches = [x, normal(N, 6, seed=1)]
    found = sg.signature(model, batches, estimator="both", keep=None)
    one = sg.signature(model, batches[:1], estimator="both")
    assert [site.n for site in found.sites] == [N, N]
    assert [site.population_n for site in found.sites] == [2 * N, 2 * N]
    expected = [score(hidden, F.relu), score(F.relu(hidden), torch.tanh)]
    assert one.scores == pytest.approx(expected, abs=1e-6)


def test_another_order_than_before_is_that_of_whole_samples() -> None:
    model, x = Sorting("twice"), normal(N, 6)
    found = sg.signature(model, [x])
    hidden = model.linear(x).detach()
    assert [site.n for site in found.sites] == [N, N]
    assert found.scores[1] == pytest.approx(score(F.relu(hidden), torch.tanh), abs=1e-6)
    assert found.sites[1].axis_reason.endswith("the samples that were selected")


class Packed(nn.Module):
    """A recurrent network on packed sequences."""

    def __init__(self, *, batch_first: bool, enforce_sorted: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rnn, self.linear = nn.GRU(6, 5, batch_first=batch_first), nn.Linear(5, 5)
        self.batch_first, self.enforce_sorted = batch_first, enforce_sorted

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        options: Any = {"batch_first": self.batch_first}
        packed = pack_padded_sequence(x, lengths, **options, enforce_sorted=self.enforce_sorted)
        tokens = F.relu(2 * packed.data)
        found, last = self.rnn(packed)
        padded, _ = pad_packed_sequence(found, **options)
        return tokens, torch.tanh(self.linear(padded)), torch.sigmoid(self.linear(last[-1]))


@pytest.mark.parametrize("enforce_sorted", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_packed_sequences(batch_first: bool, enforce_sorted: bool) -> None:
    model = Packed(batch_first=batch_first, enforce_sorted=enforce_sorted)
    lengths = torch.arange(N) * 7 % 9 + 1
    lengths = lengths.sort(descending=True).values if enforce_sorted else lengths
    x = normal(N, 9, 6) if batch_first else normal(9, N, 6)
    options: Any = {"forward": lambda model, batch: model(*batch)}
    options["batch_axis"] = 0 if batch_first else 1
    found = sg.signature(model, [(x, lengths)], **options)
    assert [site.n for site in found.sites] == [0, N, N]
    assert "samples='tokens'" in found.sites[0].reason
    with torch.no_grad():
        packed = pack_padded_sequence(x, lengths, batch_first, enforce_sorted)
        states, last = model.rnn(packed)
        padded = model.linear(pad_packed_sequence(states, batch_first)[0])
    steps = 1 if batch_first else 0
    with torch.no_grad():
        expected = float(sg.affinity(padded.mean(steps), torch.tanh(padded).mean(steps)))
    assert found.scores[1] == pytest.approx(expected, abs=1e-6)
    last_step = score(model.linear(last[-1]).detach(), torch.sigmoid)
    assert found.scores[2] == pytest.approx(last_step, abs=1e-6)
    rows = sg.signature(model, [(x, lengths)], samples="tokens", **options)
    assert rows.sites[0].n == int(lengths.sum())


class Graph(SimpleNamespace):
    """A batch of graphs with the attributes that torch_geometric gives it."""

    def to(self, device: Any) -> Graph:
        return Graph(**{name: value.to(device) for name, value in vars(self).items()})


class Convolution(nn.Module):
    """Adds up neighbors, then averages the nodes of each graph."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(6, 5), nn.Linear(5, 4)

    def nodes(self, graph: Any) -> Tensor:
        source, target = graph.edge_index
        hidden = self.first(graph.x)
        return torch.zeros_like(hidden).index_add_(0, target, hidden[source])

    def graphs(self, graph: Any, nodes: Tensor) -> Tensor:
        count = int(graph.batch.max()) + 1
        return self.second(torch.zeros(count, 5).index_add_(0, graph.batch, nodes))

    def forward(self, graph: Any) -> Tensor:
        return torch.tanh(self.graphs(graph, F.relu(self.nodes(graph))))


@pytest.mark.parametrize("samples", ["batch", "tokens", "positions"])
def test_nodes_and_graphs_are_samples(samples: Any) -> None:
    counts = torch.arange(N) % 3 + 2
    batch = torch.arange(N).repeat_interleave(counts)
    first = torch.cumsum(counts, 0) - counts
    edges = torch.stack([torch.arange(len(batch)), first[batch]])
    graph = Graph(x=normal(len(batch), 6), edge_index=edges, batch=batch)
    model = Convolution()
    found = sg.signature(model, graph, samples=samples, estimator="both")
    with torch.no_grad():
        nodes = model.nodes(graph)
        pooled = model.graphs(graph, F.relu(nodes))
    assert [site.n for site in found.sites] == [len(batch), N]
    expected = [score(nodes, F.relu), score(pooled, torch.tanh)]
    assert found.scores == pytest.approx(expected, abs=1e-6)
    assert [site.population_n for site in found.sites] == [len(batch), N]


def test_a_router_that_masks_gets_advice() -> None:
    class Router(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 8)

        def forward(self, x: Tensor) -> Tensor:
            logits = self.linear(x)
            best = logits.topk(2).indices
            kept = torch.full_like(logits, -torch.inf).scatter(-1, best, logits.gather(-1, best))
            return torch.sigmoid(kept)

    site = sg.signature(Router(), [normal(N, 6)]).sites[0]
    assert "mask by a large finite number such as -1e4" in site.reason
    assert "Drop those rows" not in site.reason
