"""Records: what `typing.NamedTuple` promises holds, but that annotations are not looked at."""

from __future__ import annotations

import pickle
from typing import NamedTuple as TypingNamedTuple

import pytest

from dtlint.record import NamedTuple


class Point(NamedTuple):
    """A place in a plane."""

    across: int
    up: int = 0
    label: Elsewhere = ""  # type: ignore[name-defined]  # noqa: F821 - annotations are not looked at

    @property
    def steps(self) -> int:
        """The way to it on a grid."""
        return abs(self.across) + abs(self.up)

    @classmethod
    def origin(cls) -> Point:
        """Where both axes meet."""
        return cls(0)

    def moved(self, by: int) -> Point:
        """The place further to the right."""
        return self._replace(across=self.across + by)


class Typed(TypingNamedTuple):
    """The same fields, made by typing."""

    across: int
    up: int = 0
    label: str = ""


def test_annotations_are_the_fields_in_order() -> None:
    assert Point._fields == ("across", "up", "label")
    assert Point(1, label="here") == (1, 0, "here")
    assert repr(Point(1, 2)) == "Point(across=1, up=2, label='')"


def test_a_field_without_a_value_must_be_given() -> None:
    with pytest.raises(TypeError, match="across"):
        Point()  # type: ignore[call-arg]


def test_properties_methods_and_class_methods_work() -> None:
    assert Point.origin().moved(3).steps == 3


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Point(1).across = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Point(1).further = 2  # type: ignore[attr-defined]


def test_it_knows_its_name_its_module_and_what_it_is_for() -> None:
    assert (Point.__name__, Point.__qualname__, Point.__module__) == ("Point", "Point", __name__)
    assert Point.__doc__ == "A place in a plane."


def test_what_is_made_of_a_record_is_an_ordinary_class() -> None:
    class Marked(Point):
        pass

    assert Marked(1).moved(2) == Point(3)


@pytest.mark.parametrize("count", [2, 4])
def test_as_many_values_as_fields_are_taken(count: int) -> None:
    with pytest.raises(TypeError, match="3"):
        Point._make(range(count))


def test_only_fields_can_be_replaced() -> None:
    with pytest.raises(ValueError, match="depth"):
        Point(1)._replace(depth=2)  # type: ignore[call-arg]


def test_it_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)


def test_it_has_all_that_typing_gives() -> None:
    assert set(dir(Typed)) - set(dir(Point)) <= {"__orig_bases__"}
