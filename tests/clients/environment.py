"""The client libraries: a virtual environment and a node_modules in the build folder, made once and kept.

Exit status 77, with a sentence, where they cannot be had: no venv module, no npm, no package index that answers. Knows no
server.
"""
import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import venv

import served

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = pathlib.Path(served.BIN).resolve().parent / "clients"
MAKING_S = 400  # for a download on a slow line


@contextlib.contextmanager
def made_once(name, recipe):
    """The folder of that name and whether it still has to be made from `recipe`, a file. One process at a time."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    recipe_hash = hashlib.sha256(recipe.read_bytes() + sys.version.encode()).hexdigest()
    stamp = FOLDER / f"{name}.made"
    with open(FOLDER / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = not stamp.exists() or stamp.read_text() != recipe_hash
        if missing:
            stamp.unlink(missing_ok=True)
            shutil.rmtree(FOLDER / name, ignore_errors=True)
        yield FOLDER / name, missing
        stamp.write_text(recipe_hash)


def get(what, *command, **more):
    """Runs what downloads; skips the test where it fails."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=MAKING_S, **more)
    except subprocess.TimeoutExpired:
        served.skip_all(f"the package index did not give {what} within {MAKING_S} s")
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        served.skip_all(f"the package index did not give {what}: {lines[-1] if lines else done.returncode}")


def enter_python_environment():
    """Runs this program again with the Python that has the clients, unless it already does."""
    try:
        with made_once("venv", HERE / "requirements.txt") as (folder, missing):
            if missing:
                venv.create(folder, with_pip=True)
                get("the Python clients", folder / "bin/python", "-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "20",
                    "--disable-pip-version-check", "-r", HERE / "requirements.txt")
    except (subprocess.CalledProcessError, ImportError) as failure:
        served.skip_all(f"no virtual environment can be made here ({failure}): package python3-venv has what is missing")
    if pathlib.Path(sys.prefix).resolve() != folder.resolve():
        os.execv(folder / "bin/python", [str(folder / "bin/python"), *sys.argv])


def node_environment():
    """A folder from which Node.js finds the clients."""
    if not shutil.which("node") or not shutil.which("npm"):
        served.skip_all("node and npm are not there")
    with made_once("node", HERE / "package.json") as (folder, missing):
        if missing:
            folder.mkdir()
            shutil.copy(HERE / "package.json", folder)
            get("the Node.js client", "npm", "install", "--no-audit", "--no-fund", "--loglevel", "error", "--fetch-retries", "1",
                "--fetch-timeout", "20000", cwd=folder)
    return folder
