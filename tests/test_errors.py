"""The family of errors, and the message for an unknown option."""

from __future__ import annotations

import pytest

import sigmascope as sg
from sigmascope import errors
from sigmascope.checks import check_choice
from sigmascope.errors import (
    InputError,
    InputTypeError,
    MissingExtraError,
    OptionError,
    SigmascopeError,
)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (InputError, ValueError),
        (InputTypeError, TypeError),
        (OptionError, ValueError),
        (MissingExtraError, ImportError),
    ],
)
def test_each_error_is_ours_and_a_builtin(
    error: type[SigmascopeError], builtin: type[Exception]
) -> None:
    assert issubclass(error, SigmascopeError)
    assert issubclass(error, builtin)
    with pytest.raises(builtin, match=r"^what, and what to do$"):
        raise error("what, and what to do")


def test_the_family_is_complete() -> None:
    family = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, SigmascopeError)
    }
    assert family == {name for name in sg.__all__ if name.endswith("Error")}
    assert SigmascopeError.__bases__ == (Exception,)
    assert all(getattr(errors, name).__doc__ for name in family)


@pytest.mark.parametrize("value", ["optimal", "paired"])
def test_known_options_pass(value: str) -> None:
    assert check_choice("coupling", value, ["optimal", "paired"]) == value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "paird",
            "coupling='paird' is not a valid choice. Did you mean 'paired'? "
            "Choose from 'optimal', 'paired'.",
        ),
        ("x", "coupling='x' is not a valid choice. Choose from 'optimal', 'paired'."),
        ("", "coupling='' is not a valid choice. Choose from 'optimal', 'paired'."),
        (None, "coupling=None is not a valid choice. Choose from 'optimal', 'paired'."),
        (1, "coupling=1 is not a valid choice. Choose from 'optimal', 'paired'."),
        (["paired"], "coupling=['paired'] is not a valid choice. Choose from 'optimal', 'paired'."),
    ],
)
def test_unknown_options_are_told_the_choices(value: object, message: str) -> None:
    with pytest.raises(OptionError, match="is not a valid choice") as caught:
        check_choice("coupling", value, ["optimal", "paired"])
    assert str(caught.value) == message


def test_choices_may_be_any_iterable() -> None:
    with pytest.raises(
        OptionError, match=r"Did you mean 'paired'\? Choose from 'optimal', 'paired'\.$"
    ):
        check_choice("coupling", "pairedd", iter({"optimal": 1, "paired": 2}))
