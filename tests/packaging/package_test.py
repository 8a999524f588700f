"""The Debian package: built by cpack, installed below a folder of its own, its program run, its units checked, removed."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from support import BIN, ROOT, default_model, millrace, skip_all  # noqa: E402

BUILD = pathlib.Path(BIN).resolve().parent
MOST_EXPOSED = 20  # tenths, as `systemd-analyze security` counts: 1.6 when this was written

for tool in ("cpack", "dpkg-deb", "dpkg-shlibdeps"):
    if not shutil.which(tool):
        skip_all(f"{tool} is not there")
if not (BUILD / "CPackConfig.cmake").exists():
    skip_all(f"{BUILD} is no build folder of this project")


def run(*command, **more):
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, **more)
    assert done.returncode == 0, f"{command}: {done.stdout}"
    return done.stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        run("cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", cls.folder, cwd=BUILD)
        [cls.package] = cls.folder.glob("millrace_*.deb")
        cls.root = cls.folder / "root"
        run("dpkg-deb", "-x", cls.package, cls.root)

    def dpkg(self, root, *command):
        # Scripts run outside of that root, and see by DPKG_ROOT that they have nothing to tell this machine's systemd.
        return run("dpkg", f"--root={root}", "--force-not-root", "--force-depends", "--force-script-chrootless", *command,
                   env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"})

    def test_what_it_needs_is_what_the_program_links(self):
        depends = run("dpkg-deb", "--field", self.package, "Depends")
        for library in ("libc6", "libstdc++6", "libssl3", "libsystemd0", "libhwloc15"):
            self.assertIn(library, depends)
        self.assertNotIn("-dev", depends)

    def test_the_installed_program_runs(self):
        program = self.root / "usr/bin/millrace"
        self.assertEqual(run(program, "--version"), millrace("--version").stdout)
        prompt = ["run", str(default_model()), "-p", "The capital of France is", "-n", "6", "--threads", "1"]
        self.assertEqual(run("sh", "-c", '"$@" 2>/dev/null', "sh", program, *prompt), millrace(*prompt).stdout)

    def test_what_is_in_it(self):
        files = {"/" + str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}
        pages = {file for file in files if file.startswith("/usr/share/man/")}
        self.assertEqual(files - pages, {
            "/etc/default/millrace", "/usr/bin/millrace", "/usr/lib/systemd/system/millrace.service", "/usr/lib/systemd/system/millrace.socket",
            "/usr/share/doc/millrace/README.md", "/usr/share/doc/millrace/copyright", "/usr/share/doc/millrace/grafana/millrace.json"})
        for file in files:  # readable by all, writable by root only
            self.assertEqual((self.root / file[1:]).stat().st_mode & 0o777, 0o755 if file == "/usr/bin/millrace" else 0o644, file)
        if shutil.which("help2man"):
            texts = (ROOT / "tests/golden/help").glob("*.txt")
            self.assertEqual({pathlib.Path(page).name for page in pages},
                             {("millrace" if text.stem == "millrace" else f"millrace-{text.stem}") + ".1.gz" for text in texts})

    def test_the_settings_say_only_what_serve_knows(self):
        settings = (self.root / "etc/default/millrace").read_text()
        self.assertRegex(settings, r"(?m)^MODEL=$")
        options = re.findall(r"^#MILLRACE_(\w+)=", settings, re.M)
        self.assertTrue(options)
        text = millrace("serve", "--help").stdout
        for option in options:
            self.assertIn(f"--{option.lower().replace('_', '-')} ", text)

    def test_it_installs_and_goes_without_a_trace(self):
        root = self.folder / "machine"
        (root / "var/lib/dpkg").mkdir(parents=True)

        def files():
            return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and "var/lib/dpkg" not in str(path)}

        self.dpkg(root, "--install", self.package)
        self.assertEqual(files(), {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()})
        self.dpkg(root, "--remove", "millrace")
        self.assertEqual(files(), {"etc/default/millrace"})  # settings are the administrator's
        self.dpkg(root, "--purge", "millrace")
        self.assertEqual(files(), set())

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not there")
    def test_the_units_are_right_and_the_service_is_shut_in(self):
        units = self.folder / "units"
        units.mkdir()
        for name in ("millrace.service", "millrace.socket"):
            text = (self.root / "usr/lib/systemd/system" / name).read_text()
            (units / name).write_text(text.replace("/usr/bin/millrace", BIN))  # has to exist
        said = run("systemd-analyze", "verify", "--man=no", units / "millrace.service", units / "millrace.socket")
        self.assertNotIn("millrace", said)
        run("systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}", units / "millrace.service")


if __name__ == "__main__":
    unittest.main(verbosity=1)
