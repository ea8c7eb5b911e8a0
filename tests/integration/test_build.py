"""The build's other shapes: installed under a prefix, and without the collector."""

import json
import subprocess

import pytest

pytestmark = pytest.mark.slow


def sh(*command, **options):
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(root, tmp_path_factory):
    place = tmp_path_factory.mktemp("build") / "build"
    sh("meson", "setup", "-Dtests=disabled", place, root)
    sh("ninja", "-C", place)
    return place


def test_installed_it_finds_its_agent(root, built, tmp_path):
    sh("make", "-C", root, "install", f"BUILD={built}", f"PREFIX={tmp_path}/usr")
    tool = tmp_path / "usr/bin/mallograph"
    sh(tool, "-q", "-o", "x.mgl", "ls", cwd=tmp_path)
    report = json.loads(sh(tool, "report", "--json", "x.mgl", cwd=tmp_path))
    assert report["processes"][0]["allocations"] > 0


def test_destdir_stages_the_whole(root, built, tmp_path):
    sh("make", "-C", root, "install", f"BUILD={built}", "PREFIX=/opt/m", f"DESTDIR={tmp_path}")
    files = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert {"mallograph", "libmallograph-agent.so", "mallograph.1"} <= files
    assert {path.name for path in tmp_path.iterdir()} == {"opt"}


def test_the_agent_builds_alone(root, tmp_path):
    sh("meson", "setup", "-Dcollector=false", "-Dwerror=true", tmp_path, root)
    sh("ninja", "-C", tmp_path)
    assert (tmp_path / "libmallograph-agent.so").is_file()
    assert not (tmp_path / "mallograph").exists()
