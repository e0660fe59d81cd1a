"""Build hook: puts the compiled data tables into the wheel as dtlint/_compiled/*.json."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledData(BuildHookInterface[Any]):
    """Compiles what dtlint.compiled.BUILDERS lists; an editable install goes without, its data may change."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the tables to a temporary folder and have them included."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from dtlint.compiled import BUILDERS, compiled

        self._folder = tempfile.TemporaryDirectory()
        for name in BUILDERS:
            file = Path(self._folder.name, f"{name}.json")
            file.write_text(json.dumps(compiled(name)), encoding="utf-8")
            build_data["force_include"][str(file)] = f"dtlint/_compiled/{name}.json"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        folder = getattr(self, "_folder", None)
        if folder is not None:
            folder.cleanup()
