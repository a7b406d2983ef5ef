"""A Debian package of narval, by dpkg-deb alone: `make deb`.

    python packaging/deb.py WHEEL FOLDER [REQUIREMENT…]

writes FOLDER/narval_VERSION_ARCHITECTURE.deb. All of narval, with what it imports, is in a virtual
environment under /opt/narval. Without requirements those of the wheel with the extra `postgres` are
installed. The Python that runs this is the one that the package needs: on Debian that of the system,
/usr/bin/python3.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PREFIX = Path("/opt/narval")
"""The environment on the machine that has the package."""

UNITS = {"narval-system.service": "narval.service", "narval-web-system.service": "narval-web.service"}

CONTROL = """\
Package: narval
Version: {version}
Architecture: {architecture}
Maintainer: narval maintainers <maintainers@localhost>
Section: admin
Priority: optional
Installed-Size: {size}
Depends: python3 (>= {major}.{minor}), python3 (<< {major}.{next})
Description: a daemon that remembers, notices and acts
 narval holds a memory of XML elements; recipes in a folder say what to do about them.
 This package has system units of one home, /var/lib/narval, of the user narval.
"""


def main(wheel: Path, folder: Path, requirements: list[str]) -> Path:
    """Build the package; its path."""
    version = wheel.name.split("-")[1]
    architecture = _said("dpkg", "--print-architecture")
    folder.mkdir(parents=True, exist_ok=True)
    package = folder / f"narval_{version}_{architecture}.deb"
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, "root")
        root.mkdir(mode=0o755)
        _environment(root, wheel, requirements)
        _files(root)
        _control(root, version, architecture)
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--build", root, package], check=True
        )
    return package


def _environment(root: Path, wheel: Path, requirements: list[str]) -> None:
    """Make the virtual environment, and have its programs and settings name the place where it will be."""
    place = root / PREFIX.relative_to("/")
    place.parent.mkdir(parents=True)
    base = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    subprocess.run([base, "-m", "venv", place], check=True)
    pip = [place / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, *(requirements or [f"{wheel}[postgres]"])], check=True)
    for cache in [*place.rglob("__pycache__")]:  # it names the place where it was made; postinst compiles
        shutil.rmtree(cache)
    there = str(place).encode()
    for path in (place / "pyvenv.cfg", *(place / "bin").iterdir()):
        if path.is_symlink() or there not in (text := path.read_bytes()):
            continue
        path.write_bytes(text.replace(there, os.fsencode(PREFIX)))


def _files(root: Path) -> None:
    """The command, the units, and what says that the package is there."""
    command = root / "usr/bin/narval"
    command.parent.mkdir(parents=True)
    command.symlink_to(PREFIX / "bin/narval")
    units = root / "lib/systemd/system"
    units.mkdir(parents=True)
    for source, name in UNITS.items():
        (units / name).write_text((HERE.parent / "etc" / source).read_text("utf-8"), "utf-8")
    start = root / PREFIX.relative_to("/") / "bin/narval-start"
    start.write_text((HERE / "start").read_text("utf-8"), "utf-8")
    start.chmod(0o755)


def _control(root: Path, version: str, architecture: str) -> None:
    folder = root / "DEBIAN"
    folder.mkdir(mode=0o755)
    size = sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir()) // 1024
    major, minor = sys.version_info[:2]
    text = CONTROL.format(
        version=version, architecture=architecture, size=size, major=major, minor=minor, next=minor + 1
    )
    (folder / "control").write_text(text, "utf-8")
    for script in ("postinst", "prerm", "postrm"):
        path = folder / script
        path.write_text((HERE / f"{script}.sh").read_text("utf-8"), "utf-8")
        path.chmod(0o755)


def _said(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    print(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]), sys.argv[3:]))
