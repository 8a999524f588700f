#!/usr/bin/env python3
"""O12.4: each wrong model path has its own true reason and is printed as given; odd but right ones load. No network."""
import os
import time

from support import Case, cases, main, millrace

MK = cases()


class Paths(Case):
    def load(self, path, **more):
        return millrace("run", path, "-p", "a", "-n", "1", timeout=20, **more)

    def reason(self, path):
        start = time.monotonic()
        sentence = self.refused("run", path, "-p", "a", "-n", "1", timeout=20)
        self.assertLess(time.monotonic() - start, 5)
        return sentence

    def test_each_wrong_path_has_its_own_reason(self):
        (self.folder / "empty.gguf").touch()
        (self.folder / "text.gguf").write_text("not a model, only a text\n")
        (self.folder / "bare").mkdir()
        os.symlink(self.folder / "nowhere", self.folder / "dangling.gguf")
        reasons = {}
        for path in ("missing.gguf", "bare", "empty.gguf", "text.gguf", "dangling.gguf", "/dev/null", "/dev/zero"):
            full = path if path.startswith("/dev") else str(self.folder / path)
            sentence = self.reason(full)
            self.assertIn(full, sentence)
            reasons[path] = sentence.replace(full, "")
        self.assertNotIn("magic", reasons["missing.gguf"])
        self.assertIn("config.json", reasons["bare"])
        for other in ("missing.gguf", "dangling.gguf"):
            self.assertNotEqual(reasons["text.gguf"], reasons[other])
        self.refused("run", "", "-p", "a", "-n", "1")

    def test_a_file_without_read_permission(self):
        if os.geteuid() == 0:
            self.skipTest("root reads everything")
        path = self.folder / "locked.gguf"
        path.write_bytes(MK.gguf())
        path.chmod(0)
        self.assertIn("ermission", self.reason(path))

    def test_odd_names_load(self):
        for name in ("m.bin", "ein Modell mit é.gguf"):
            (self.folder / name).write_bytes(MK.gguf({"97": 98}))
            done = self.load(self.folder / name)
            self.assertEqual((done.returncode, done.stdout), (0, "b\n"), done.stderr)

    def test_a_known_name_that_is_not_there_is_not_fetched(self):
        sentence = self.refused("run", "smollm2-135m-instruct", "-p", "a", env={"XDG_CACHE_HOME": str(self.folder)})
        self.assertIn("millrace fetch smollm2-135m-instruct", sentence)


if __name__ == "__main__":
    main()
