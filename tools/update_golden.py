#!/usr/bin/env python3
"""Writes the golden files under tests/golden anew and shows what changed.

Usage: tools/update_golden.py [build folder]      default: build/release, which must be built
"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main() -> int:
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release")
    test = build / "cli_test"
    if not test.exists():
        print(f"{test} is not built: cmake --build {build} --target cli_test")
        return 1
    done = subprocess.run([test, "--gtest_brief=1", "--gtest_filter=Help.*golden*"], env={**os.environ, "MILLRACE_UPDATE_GOLDEN": "1"})
    subprocess.run(["git", "--no-pager", "diff", "--stat", "-p", "--", "tests/golden"], cwd=ROOT)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
