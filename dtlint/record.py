"""Immutable records: what `typing.NamedTuple` is to a reader and a type checker, made in a tenth of its time.

dtlint has more than a hundred kinds of record, and typing takes longer to make them than a check to find everything:
it compiles the annotation of every field and a constructor for every class. Here annotations only name the fields,
and constructors of as many fields share their code. A module with records imports annotations from `__future__`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from collections import namedtuple
    from functools import cache
    from types import FunctionType

    _Field = type(namedtuple("_Single", "field").field)

    @cache
    def _field(index):
        """What reads the field at a place: a property, but faster."""
        return _Field(index, "")

    @cache
    def _unnamed_constructor(count):
        """A constructor of so many fields, whose parameters have no names of their own yet."""
        parameters = ", ".join(f"field{number}" for number in range(count))
        return eval(f"lambda cls, {parameters}: new(cls, ({parameters},))", {"new": tuple.__new__})

    def _constructor(fields, defaults):
        made = _unnamed_constructor(len(fields))
        code = made.__code__.replace(co_varnames=("_cls", *fields), co_name="__new__")
        return FunctionType(code, made.__globals__, "__new__", defaults)

    class _RecordType(type):
        """Makes a class with named fields of a class body: its annotations are the fields."""

        def __new__(cls, name, bases, body):
            if bases and bases[0] is not NamedTuple:
                return super().__new__(cls, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body[field] for field in fields if field in body}
            own = {"__slots__": (), "_fields": fields, "__match_args__": fields, "_field_defaults": defaults}
            own["_places"] = {field: index for index, field in enumerate(fields)}
            if bases:
                own["__new__"] = _constructor(fields, tuple(defaults.values()))
            fields_by_name = {field: _field(index) for index, field in enumerate(fields)}
            return super().__new__(cls, name, bases or (tuple,), {**body, **fields_by_name, **own})

    class NamedTuple(metaclass=_RecordType):
        """Base of a class whose annotated names are the fields of a tuple, in order; those with a value come last."""

        @classmethod
        def _make(cls, values):
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, not {len(made)}")
            return made

        def _replace(self, /, **changes):
            values, places = list(self), self._places
            try:
                for field, value in changes.items():
                    values[places[field]] = value
            except KeyError as missing:
                raise ValueError(f"{type(self).__name__} has no field {missing.args[0]}") from None
            return tuple.__new__(type(self), values)

        __replace__ = _replace

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            values = ", ".join(f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({values})"

        def __getnewargs__(self):
            return tuple(self)
