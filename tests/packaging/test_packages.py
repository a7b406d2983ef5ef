"""The packages: system units, the Debian package, the container. Those that take long are in `make soak`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.places import ROOT

PACKAGING = ROOT / "packaging"
UNITS = {"narval-system.service": "narval.service", "narval-web-system.service": "narval-web.service"}
DPKG = shutil.which("dpkg-deb") and shutil.which("dpkg")
RUNTIME = next((name for name in ("podman", "docker") if shutil.which(name)), "")


def ran(*words: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, **environ}, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this narval, made once."""
    folder = tmp_path_factory.mktemp("wheel")
    ran(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT)
    (made,) = folder.glob("*.whl")
    return made


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze is here")
def test_systemd_reads_the_system_units(tmp_path: Path) -> None:
    program = tmp_path / "narval-start"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for source, name in UNITS.items():
        text = (ROOT / "etc" / source).read_text("utf-8")
        assert "User=narval\n" in text
        (tmp_path / name).write_text(text.replace("/opt/narval/bin/narval-start", str(program)), "utf-8")
        said = ran("systemd-analyze", "verify", "--man=no", tmp_path / name)
        assert name not in said.stderr


def test_a_system_unit_forbids_all_that_the_user_unit_does() -> None:
    for source, name in UNITS.items():
        of_system = set((ROOT / "etc" / source).read_text("utf-8").splitlines())
        lines = (ROOT / "etc" / name).read_text("utf-8").splitlines()
        settings = {line for line in lines if "=" in line and not line.startswith("#")}
        left_out = {line.partition("=")[0] for line in settings - of_system}
        assert left_out == {"ExecStart", "WantedBy"}


def test_the_first_start_makes_the_home_and_later_ones_leave_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for seen in ("is a home", ""):
        said = ran(PACKAGING / "start", "service", NARVAL_HOME=str(home), PATH=path)
        assert said.stdout.startswith("# A unit")
        assert seen in said.stderr
        assert (home / "etc" / "narval.toml").exists()
    assert "is a home" not in said.stderr


@pytest.mark.soak
@pytest.mark.skipif(not DPKG or os.getuid() != 0, reason="a package is installed by dpkg, as root")
def test_the_debian_package_is_installed_runs_and_goes(wheel: Path, tmp_path: Path) -> None:
    said = ran(sys.executable, PACKAGING / "deb.py", wheel, tmp_path)
    package = said.stdout.splitlines()[-1]
    root = tmp_path / "root"
    for folder in ("updates", "info"):
        (root / "var/lib/dpkg" / folder).mkdir(parents=True)
    for name in ("status", "available"):
        (root / "var/lib/dpkg" / name).touch()
    dpkg = ("dpkg", f"--root={root}", "--force-script-chrootless", "--force-depends")
    ran(*dpkg, "-i", package)
    for name in UNITS.values():
        assert (root / "lib/systemd/system" / name).exists()
    assert os.readlink(root / "usr/bin/narval") == "/opt/narval/bin/narval"
    place = root / "opt/narval/bin"
    assert (place / "narval").read_text().startswith("#!/opt/narval/bin/python")
    assert not [
        path for path in place.iterdir() if path.is_file() and str(tmp_path) in path.read_text("latin-1")
    ]
    narval = (place / "python", "-m", "narval", "--home", tmp_path / "home")
    ran(*narval, "init", "--bare")
    with subprocess.Popen([*narval, "run"], stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        assert "is ready" in daemon.stdout.readline()
        assert ran(*narval, "status", "--check").stdout == "well\n"
        ran(*narval, "stop")
    ran(*dpkg, "--purge", "narval")
    assert not (root / "usr/bin/narval").is_symlink()


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """The image of this narval; the test is skipped where no runtime answers."""
    if not RUNTIME or subprocess.run([RUNTIME, "info"], capture_output=True).returncode:
        pytest.skip("no container runtime answers here")
    name = "narval-test"
    ran(RUNTIME, "build", "-t", name, "-f", PACKAGING / "Containerfile", ROOT)
    yield name
    ran(RUNTIME, "rmi", "-f", name)


@pytest.mark.soak
def test_the_container_runs_without_root_and_is_well(image: str) -> None:
    volume = f"narval-test-{os.getpid()}"
    number = ran(
        RUNTIME, "run", "-d", "--cap-drop=ALL", "-v", f"{volume}:/var/lib/narval", image
    ).stdout.strip()
    try:
        check = [RUNTIME, "exec", number, "narval", "status", "--check"]
        while subprocess.run(check, capture_output=True).returncode:
            assert ran(RUNTIME, "inspect", "-f", "{{.State.Running}}", number).stdout == "true\n"
        assert ran(RUNTIME, "exec", number, "id", "-u").stdout == "10001\n"
        ran(RUNTIME, "stop", number)
        assert ran(RUNTIME, "inspect", "-f", "{{.State.ExitCode}}", number).stdout == "0\n"
    finally:
        ran(RUNTIME, "rm", "-f", number)
        ran(RUNTIME, "volume", "rm", volume)
