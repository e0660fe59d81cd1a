"""Places of dtlint as those of the protocol: files as URIs, lines from 0, columns in the units of the editor."""

from __future__ import annotations

from pathlib import Path

from lsprotocol.types import Location, Position, Range
from pygls.uris import from_fs_path, to_fs_path
from pygls.workspace import PositionCodec

from dtlint.source import Source, Span


def file_of(uri: str) -> Path | None:
    """The file of a document; None for one that no file holds."""
    path = to_fs_path(uri) if uri.startswith("file:") else None
    return Path(path).resolve() if path else None


def uri_of(file: Path) -> str:
    """The URI of a file, the same for each way to name it."""
    found: str | None = from_fs_path(str(file.resolve()))
    assert found is not None, "an absolute path has a URI"
    return found


def range_of(span: Span, codec: PositionCodec) -> Range:
    """The range of a span in its own source."""
    return Range(_position(span.source, span.start, codec), _position(span.source, span.end, codec))


def location_of(span: Span, codec: PositionCodec) -> Location | None:
    """Where a span was written; None for text that no file holds."""
    here = span.original()
    return None if here.source.file is None else Location(uri_of(here.source.file), range_of(here, codec))


def offset_of(source: Source, position: Position, codec: PositionCodec) -> int | None:
    """The offset of a position in a source; None behind its last line."""
    if position.line >= source.line_count():
        return None
    text = source.line_text(position.line + 1)
    units = 0
    for column, character in enumerate(text):
        if units >= position.character:
            return source.line_start(position.line + 1) + column
        units += codec.client_num_units(character)
    return source.line_start(position.line + 1) + len(text)


def _position(source: Source, offset: int, codec: PositionCodec) -> Position:
    line, column = source.position(offset)
    return Position(line - 1, codec.client_num_units(source.line_text(line)[: column - 1]))
