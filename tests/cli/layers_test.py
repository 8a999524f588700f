#!/usr/bin/env python3
"""The layer check passes on the tree, and fails when an include against the table is added."""
import shutil
import subprocess

from support import ROOT, Case, main


class Layers(Case):
    def check(self, folder):
        return subprocess.run([ROOT / "tools/check_layers.py", folder], capture_output=True, text=True)

    def test_the_tree_is_clean(self):
        done = self.check(ROOT / "src")
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_an_include_against_the_table_fails_and_is_named(self):
        for module, header in (("sched", "tensor/shape.h"), ("kernels", "model/config.h"), ("model", "engine/engine.h"), ("base", "kv/block_pool.h")):
            copy = self.folder / module
            shutil.copytree(ROOT / "src", copy)
            victim = next((copy / module).glob("*.h"))
            victim.write_text(victim.read_text() + f'\n#include "{header}"\n')
            done = self.check(copy)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{victim}: '{module}' may not include '{header.split('/')[0]}'", done.stdout)

    def test_a_folder_without_a_row_fails(self):
        copy = self.folder / "src"
        (copy / "gpu").mkdir(parents=True)
        (copy / "gpu/x.h").write_text("")
        self.assertEqual(self.check(copy).returncode, 1)


if __name__ == "__main__":
    main()
