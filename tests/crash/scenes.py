"""The files of one crash test, and what the processes that work on them are told."""

import shutil
from pathlib import Path
from typing import Any


class Scene:
    """The files of one test, and the processes that work on them."""

    def __init__(self, place: Path, seeded: Path) -> None:
        self.place = place
        self.db = place / "wfcore.db"
        shutil.copy(seeded, self.db)

    def spec(self, life: str, who: str, **more: Any) -> dict[str, Any]:
        return spec(self.place, self.db, life, who, **more)

    def said(self, who: str) -> str:
        path = self.place / f"{who}.out"
        return path.read_text() if path.exists() else ""


def spec(place: Path, db: Path, life: str, who: str, **more: Any) -> dict[str, Any]:
    files = {name: str(place / f"{who}.{name}") for name in ("acks", "appends")}
    shared = {"db": str(db), "log": str(place / "log"), "started": str(place / "started")}
    return {"life": life, "output": str(place / f"{who}.out"), **files, **shared, **more}
