"""Immutable records: what `typing.NamedTuple` is to a reader and a type checker, made in a third of its time.

typing compiles the annotation of every field when a class is made, which takes longer than reading and checking a
config. Fields, defaults, methods and the rest are those of `collections.namedtuple`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from collections import namedtuple

    _MADE_BY_CLASS = frozenset(("__module__", "__qualname__", "__annotations__", "__slots__"))

    class _Record(type):
        """Makes a tuple class with named fields of a class body: its annotations are the fields."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            defaults = [body[field] for field in fields if field in body]
            record = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            record.__qualname__ = body["__qualname__"]
            record.__annotations__ = body.get("__annotations__", {})
            for member, value in body.items():
                if member not in fields and member not in _MADE_BY_CLASS:
                    setattr(record, member, value)
            return record

    class NamedTuple(metaclass=_Record):
        """Base of a class whose annotated names are the fields of a tuple, in order; those with a value come last."""
