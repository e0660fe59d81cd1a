"""Objects that statements build."""

from dtlint.languages.python.built import Built
from dtlint.source import Source, Span
from dtlint.value import Unknown


def test_objects_that_hold_each_other_are_forgotten_once() -> None:
    span = Span(Source("a.py", ""), 0, 0)
    owner, part = Built("Owner", span), Built("Part", span)
    owner.fields["part"], part.fields["owner"] = part, owner
    owner.fields["name"] = Unknown("as it was")
    owner.hide("a call may change it")
    assert owner.fields["name"] == Unknown("a call may change it", "", None)
    assert (part.open, part.fields["owner"]) == ("a call may change it", owner)
