"""The command that measures one network of a request alone, to see why it fails."""

from __future__ import annotations

import dataclasses
import shlex

from sigmascope.measure.options import Options
from sigmascope.runs.request import GIVEN, Request, Selection

# Option of the command line -> its field.
OPTIONS = {
    f"--{name.replace('_', '-')}": name
    for name in (
        *("estimator", "samples", "max_positions", "gates", "covariance", "eps", "pool"),
        *("max_batches", "seed"),
    )
}
DATA = {"--data-root": "root", "--split": "split", "--limit": "limit", "--batch-size": "batch_size"}


def command_for(request: Request, name: str) -> str:
    """Return the command that measures one network with the options of a request.

    It writes nothing and shows where an error comes from. Networks that a program has built have
    no command: "".

    >>> from sigmascope.runs.request import request_for
    >>> command_for(request_for(["timm/vit_tiny", "a b"], Selection("random:8", limit=64)), "a b")
    "sigmascope --debug measure 'a b' --data random:8 --limit 64"
    """
    if request.weights == GIVEN:
        return ""
    words = ["sigmascope", "--debug", "measure", name, "--data", request.data.name]
    words += _changed(DATA, request.data, Selection(""))
    if request.weights != "default":
        words += ["--weights", request.weights]
    words += _changed(OPTIONS, request.options, Options())
    words += [word for metric in request.options.metrics for word in ("--metrics", metric)]
    return shlex.join(words)


def _changed(options: dict[str, str], chosen: object, default: object) -> list[str]:
    """Return the options whose fields differ from their defaults."""
    known = {field.name for field in dataclasses.fields(chosen)}  # type: ignore[arg-type]
    values = {option: getattr(chosen, name) for option, name in options.items() if name in known}
    return [
        word
        for option, value in values.items()
        if value is not None and value != getattr(default, options[option])
        for word in (option, str(value))
    ]
