"""Scripts that are not ours (M94); `python -m tests.surfaces.web.vendored` (make vendor) fetches them."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from tests.places import ROOT

STATIC = ROOT / "narval" / "surfaces" / "web" / "static"
TABLE = STATIC / "VENDORED.toml"


def packages() -> dict[str, dict[str, Any]]:
    """The packages of the table, by name."""
    return tomllib.loads(TABLE.read_text())


def files(package: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The files that are taken of a package, by their names here."""
    return {name: value for name, value in package.items() if isinstance(value, dict)}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def renew() -> None:
    """Take the versions that the table names, and write the digests of what came."""
    text = TABLE.read_text()
    for name, package in packages().items():
        with tempfile.TemporaryDirectory() as folder:
            wanted = f"{name}@{package['version']}"
            subprocess.run(
                ["npm", "pack", "--silent", wanted], cwd=folder, check=True, stdout=subprocess.DEVNULL
            )
            with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
                archive.extractall(folder, filter="data")
            for file, said in files(package).items():
                (STATIC / file).write_bytes((Path(folder) / "package" / said["from"]).read_bytes())
                line = re.compile(rf'^("{re.escape(file)}" = .*sha256 = ")[0-9a-f]*(")', re.MULTILINE)
                text = line.sub(rf"\g<1>{digest(STATIC / file)}\g<2>", text)
    TABLE.write_text(text)


if __name__ == "__main__":
    renew()
