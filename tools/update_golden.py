#!/usr/bin/env python3
"""Writes the golden files under tests/golden and docs/fields.md anew and shows what changed.

Usage: tools/update_golden.py [build folder]      default: build/release, which must be built
"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main() -> int:
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release")
    failed = 0
    for name, tests in (("cli_test", "Help.*golden*"), ("server_test", "FieldDocs.*")):
        test = build / name
        if not test.exists():
            print(f"{test} is not built: cmake --build {build} --target {name}")
            return 1
        failed |= subprocess.run([test, "--gtest_brief=1", f"--gtest_filter={tests}"], env={**os.environ, "MILLRACE_UPDATE_GOLDEN": "1"}).returncode
    subprocess.run(["git", "--no-pager", "diff", "--stat", "-p", "--", "tests/golden", "docs/fields.md"], cwd=ROOT)
    return failed


if __name__ == "__main__":
    sys.exit(main())
