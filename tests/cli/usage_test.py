#!/usr/bin/env python3
"""Wrong use, help, configuration and broken outputs: what a user sees before any model is there."""
import re
import subprocess

from support import BIN, ROOT, Case, main, millrace

COMMANDS = ["run", "chat", "bench", "inspect", "tokenize", "detokenize", "logits", "perplexity", "template", "fetch"]


class Usage(Case):
    def test_wrong_use_is_exit_2_and_one_sentence(self):
        self.refused(status=2)
        self.assertIn("'walk'", self.refused("walk", status=2))
        self.assertIn("--prompt is missing", self.refused("run", "m.gguf", status=2))
        self.assertIn("'--fast'", self.refused("run", "m.gguf", "-p", "a", "--fast", status=2))
        for threads in ("0", "-1", "100000"):  # O10.1
            self.assertIn("--threads: expected 1 to 1024", self.refused("run", "m.gguf", "-p", "a", "--threads", threads, status=2))
        self.assertIn("MILLRACE_ISA", self.refused("run", "m.gguf", "-p", "a", status=2, env={"MILLRACE_ISA": "sse9"}))

    def test_help_goes_to_standard_output(self):
        overview = self.ok("--help")
        for command in COMMANDS:
            self.assertRegex(overview, rf"(?m)^  {command} ")
            text = self.ok(command, "--help")
            self.assertIn(f"  millrace {command}", text)
            for flag in re.findall(r"^  (?:-\w, )?--([a-z-]+)", text, re.M):
                self.assertNotEqual(flag, "", text)

    def test_help_is_the_golden_text_but_for_what_the_machine_decides(self):
        for command in COMMANDS:
            golden = (ROOT / f"tests/golden/help/{command}.txt").read_text()
            self.assertEqual(re.sub(r"\[\d+, one per core\]", "[...]", self.ok(command, "--help")), golden)

    def test_version_is_the_project_s(self):
        version = re.search(r"project\(millrace VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
        self.assertEqual(self.ok("--version"), f"millrace {version}\n")

    def test_print_config_names_the_source_of_each_value(self):
        out = self.ok("run", "m.gguf", "-p", "a", "--kv", "f32", "--print-config", env={"MILLRACE_SEED": "5"})
        self.assertRegex(out, r"(?m)^kv +'f32' +--kv$")
        self.assertRegex(out, r"(?m)^seed +5 +MILLRACE_SEED$")
        self.assertRegex(out, r"(?m)^threads +\d+, one per core +default$")

    def test_a_full_disk_behind_standard_output_is_exit_1(self):
        for args in (["--help"], ["inspect", "--machine"]):
            with open("/dev/full", "wb") as full:
                done = millrace(*args, stdout=full)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr, "millrace: writing to standard output: No space left on device\n")

    def test_a_closed_pipe_is_exit_1_and_no_signal(self):
        done = subprocess.run(["bash", "-c", f"'{BIN}' --help | true; echo ${{PIPESTATUS[0]}}"], capture_output=True, text=True)
        self.assertIn(done.stdout, ("0\n", "1\n"))  # 0: the pipe took the text before it closed

    def test_the_machine_and_the_kernels(self):
        report = self.ok_json("inspect", "--machine", "--kernels", "--json")
        self.assertGreaterEqual(report["machine"]["cores"], 1)
        self.assertIn("generic", report["machine"]["isa"])
        self.assertIn("gemm_q4_0", report["kernels"])
        forced = self.ok_json("inspect", "--kernels", "--json", env={"MILLRACE_ISA": "generic"})
        self.assertEqual(set(forced["kernels"].values()), {"generic"})
        missing = {"avx2", "avx_vnni", "avx512", "avx512_bf16", "amx", "neon", "neon_i8mm"} - set(report["machine"]["isa"])
        for isa in missing:
            self.assertIn(isa, self.refused("inspect", "--kernels", "--isa", isa))


if __name__ == "__main__":
    main()
