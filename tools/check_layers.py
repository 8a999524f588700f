#!/usr/bin/env python3
"""Checks that every #include "module/..." follows the layer table below.

This table is the architecture. ARCHITECTURE.md draws it; this file enforces it.
Usage: tools/check_layers.py [src-dir]      exit 0 = clean, 1 = prints each violation
"""
import pathlib
import re
import sys

MAY_INCLUDE = {
    "base":     "",
    # compute: knows tensors, never requests
    "tensor":   "base",
    "device":   "base tensor",
    "io":       "base tensor",
    "kernels":  "base tensor device",
    "ops":      "base tensor device kernels",
    "graph":    "base tensor device ops",
    "model":    "base tensor device io ops graph",
    # serving: knows requests, never tensors
    "text":     "base",
    "kv":       "base",
    "sched":    "base kv",
    "sampling": "base",
    # the roof
    "engine":   "base tensor model text kv sched sampling",
    "server":   "base text sampling engine",
    "cli":      "base tensor io kernels device ops graph model text kv sched sampling engine server",
}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"/]+)/', re.MULTILINE)


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "src")
    bad = 0
    for path in sorted(root.rglob("*")):
        if path.suffix not in {".h", ".cpp", ".cu", ".cuh", ".inc"} or path.parent == root:
            continue
        module = path.relative_to(root).parts[0]
        if module not in MAY_INCLUDE:
            print(f"{path}: no module '{module}' in the layer table")
            bad += 1
            continue
        allowed = {module, *MAY_INCLUDE[module].split()}
        for included in INCLUDE.findall(path.read_text()):
            if included not in allowed:
                print(f"{path}: '{module}' may not include '{included}'"
                      f" (allowed: {' '.join(sorted(allowed))})")
                bad += 1
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
