"""Batch norms that a network computes by calling the function, as those with an activation do.

In evaluation mode such a call is an affine map of the channels, wherever it is made. A norm of
`torch.nn` with the same statistics stands for it while layers are merged; one that is not merged
stays the call that it was.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

STATISTICS = ("running_mean", "running_var")
WEIGHTS = ("weight", "bias")
REST = ("training", "momentum", "eps")
CALLS: dict[Any, tuple[str, ...]] = {
    F.batch_norm: ("input", *STATISTICS, *WEIGHTS, *REST),
    torch.batch_norm: ("input", *WEIGHTS, *STATISTICS, *REST, "cudnn_enabled"),
}
"""Function -> the names of its arguments."""
NORMS: dict[int, type[nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d]] = {
    **dict.fromkeys((2, 3), nn.BatchNorm1d),
    **{4: nn.BatchNorm2d, 5: nn.BatchNorm3d},
}
"""The number of axes of an input -> the norm that takes it."""
COMPARISONS = (operator.eq, operator.ne, operator.ge, operator.le, operator.gt, operator.lt)
CHECK = "checks the number of axes"  # in `node.meta`


def is_norm(node: fx.Node) -> bool:
    """Return whether a node calls the function of a batch norm."""
    return node.op == "call_function" and node.target in CALLS


def arguments_of(node: fx.Node) -> dict[str, Any]:
    """Return what the function is called with, by name."""
    given = dict(zip(CALLS[node.target], node.args, strict=False)) | dict(node.kwargs)
    return {"weight": None, "bias": None, "training": False, "eps": 1e-5, **given}


def place_of_norm(node: fx.Node) -> str:
    """Return the path of the module whose statistics a call takes, or the name of the call."""
    given = arguments_of(node)
    for name in (*STATISTICS, *WEIGHTS):
        one = given.get(name)
        if isinstance(one, fx.Node) and one.op == "get_attr":
            path, _, last = str(one.target).rpartition(".")
            if path and last == name:
                return path
    around = place_around(node)
    return f"{around}.{node.name}" if around else node.name


def place_around(node: fx.Node) -> str:
    """Return the path of the module in whose `forward` a node is."""
    stack = [*(node.meta.get("nn_module_stack") or {}).values()]
    return str(stack[-1][0]) if stack else ""


def norm_of(node: fx.Node, network: nn.Module, ndim: int) -> nn.Module | str:
    """Return a norm that computes what a call does, or why there is none.

    Args:
        node: a call, see `is_norm`.
        network: with the statistics.
        ndim: of the input.
    """
    given = arguments_of(node)
    if any(given.get(name) is None for name in STATISTICS):
        return "it has no running statistics, and normalizes by those of the batch"
    if given["training"] is not False:
        return "it is called with training=True, and normalizes by the statistics of the batch"
    if ndim not in NORMS:
        return f"its input has {ndim} axes, not 2 to 5"
    if not isinstance(given["eps"], int | float):
        return "its eps is computed by the network"
    stored: dict[str, Tensor | None] = {}
    for name in (*STATISTICS, *WEIGHTS):
        if given[name] is not None and not _is_stored(given[name]):
            return f"its {name} is computed by the network, or is read elsewhere"
        stored[name] = given[name] and _tensor(network, str(given[name].target))
    return _norm(NORMS[ndim], stored, given["eps"])


def _is_stored(value: Any) -> bool:
    """Return whether a value is a tensor of the network that nothing but norms reads."""
    if not isinstance(value, fx.Node) or value.op != "get_attr":
        return False
    same = [one for one in value.graph.nodes if one.op == "get_attr" and one.target == value.target]
    return all(is_norm(user) for one in same for user in one.users)


def _tensor(network: nn.Module, target: str) -> Tensor:
    path, _, name = target.rpartition(".")
    found = getattr(network.get_submodule(path), name)
    assert isinstance(found, Tensor)
    return found.detach()


def _norm(
    kind: type[nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d],
    stored: dict[str, Tensor | None],
    eps: float,
) -> nn.Module:
    mean = stored["running_mean"]
    assert mean is not None
    made = kind(len(mean), eps, affine=False)
    made.running_mean, made.running_var = mean, stored["running_var"]
    made.num_batches_tracked = None
    for name in WEIGHTS:
        value = stored[name]
        made.register_parameter(name, None if value is None else nn.Parameter(value))
    return made.eval()


def mark(graph: fx.Graph) -> None:
    """Mark the nodes that only check a number of axes.

    What reads a value for such a check does not read what is in it. The check goes with the value.
    """
    for node in reversed(graph.nodes):
        is_end = node.op == "call_function" and node.target is torch._assert
        is_part = node.target in COMPARISONS or _asks_ndim(node)
        if is_end or (is_part and all(is_check(user) for user in node.users)):
            node.meta[CHECK] = _only_ndim(node)


def _asks_ndim(node: fx.Node) -> bool:
    if node.op == "call_method":
        return node.target in ("dim", "ndimension")
    return node.op == "call_function" and node.target is getattr and node.args[1:] == ("ndim",)


def _only_ndim(node: fx.Node) -> bool:
    """Return whether all that a node reads are numbers of axes."""
    if _asks_ndim(node):
        return True
    known = node.target in COMPARISONS or node.target is torch._assert
    return known and all(_only_ndim(one) for one in node.all_input_nodes)


def is_check(node: fx.Node) -> bool:
    """Return whether a node is marked by `mark`."""
    return node.meta.get(CHECK, False) is True


def readers(node: fx.Node) -> list[fx.Node]:
    """Return what reads the value of a node, without checks."""
    return [user for user in node.users if not is_check(user)]


def erase_checks(node: fx.Node) -> None:
    """Erase the checks of a value that is no longer computed."""
    for user in [*node.users]:
        if user in node.users and is_check(user):
            erase_checks(user)
            node.graph.erase_node(user)


def drop_unread(made: fx.GraphModule, norms: list[fx.Node]) -> None:
    """Erase what the calls of norms read, where nothing reads it any more.

    Args:
        made: a graph without these calls.
        norms: the same nodes of another copy of it.
    """
    read = [arguments_of(node)[name] for node in norms for name in (*STATISTICS, *WEIGHTS)]
    targets = {str(one.target) for one in read if isinstance(one, fx.Node)}
    for node in reversed(made.graph.nodes):
        if node.op == "get_attr" and not node.users and str(node.target) in targets:
            made.graph.erase_node(node)
    needed = [str(one.target) for one in made.graph.nodes if one.op in ("get_attr", "call_module")]
    for target in targets:
        # a module that is called itself keeps all that it has
        if not any(target == one or target.startswith(f"{one}.") for one in needed):
            path, _, name = target.rpartition(".")
            delattr(made.get_submodule(path), name)
