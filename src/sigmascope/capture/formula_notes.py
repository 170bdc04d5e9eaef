"""What the coverage says of formulas that were not taken for activations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sigmascope.capture.steps import LIMIT

SHOWN = 4  # formulas of a note


def notes_of(unclear: Sequence[tuple[str, str]], *, too_long: bool) -> list[str]:
    """Return notes on functions that may be activations, (path, text), and on a long pass.

    >>> notes_of([("head", "exp(x)"), ("head", "exp(x)")], too_long=False)[0][:48]
    'not linear and not taken for activations: exp(x)'
    """
    notes = []
    if unclear:
        counts = Counter(unclear)
        shown = [
            f"{text} in {path or 'the network'}{f' ({count} times)' * (count > 1)}"
            for (path, text), count in [*counts.items()][:SHOWN]
        ]
        more = f" and {len(counts) - SHOWN} more" * (len(counts) > SHOWN)
        notes.append(
            f"not linear and not taken for activations: {', '.join(shown)}{more}; "
            "sigmascope.register_activation makes a function or class one"
        )
    if too_long:
        notes.append(
            f"the network calls more than {LIMIT:,} torch functions in a pass; activations that "
            "are written as formulas are not looked for beyond these, their parts are sites"
        )
    return notes
