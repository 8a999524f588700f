#!/usr/bin/env python3
"""Memory: the ledger and --kv-memory, the peak of a run against it, and --kv-disk across processes that really end."""
import json
import os
import re
import subprocess
import time

from support import BIN, Case, MODEL_FILE, cache_folder, cases, main, millrace

MK = cases()
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
PROMPT = " ".join(f"word {i} of a long prefix" for i in range(12))  # some 290 tokens


def ledger(text):
    """{"weights": bytes, ...} of the table, and the tokens that its last line says."""
    rows = {m[1].strip(): float(m[2]) * UNITS[m[3]] for m in re.finditer(r"^  ([A-Za-z ]+?) +([\d.]+) ([KMGT]?i?B)", text, re.M)}
    held = re.search(r"^holds (\d+) tokens of context$", text, re.M)
    return rows, int(held[1]) if held else None


class Memory(Case):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        MK.rnd(str(self.model), 3, None)

    def test_the_ledger_is_printed_and_ends_in_what_the_pool_holds(self):
        done = millrace("run", self.model, "-p", "a", "-n", "2", "--kv-memory", "1MiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows, held = ledger(done.stderr)
        self.assertEqual(list(rows), ["program", "weights", "plans", "scratch", "KV cache", "total"])
        self.assertAlmostEqual(rows["total"], sum(rows.values()) - rows["total"], delta=1 << 20)  # each is rounded
        self.assertLessEqual(rows["KV cache"], 1 << 20)
        self.assertGreater(held, 512)
        self.assertEqual(held % 32, 0)
        twice = ledger(millrace("run", self.model, "-p", "a", "-n", "2", "--kv-memory", "2MiB").stderr)[1]
        self.assertLessEqual(abs(twice - 2 * held), 32)

    def test_a_share_of_what_is_free(self):
        small, large = (ledger(millrace("run", self.model, "-p", "a", "-n", "1", "--kv-memory", share).stderr)[1] for share in ("0.5%", "1%"))
        self.assertAlmostEqual(large / small, 2, delta=0.3)  # what is free changes between the two

    def test_chat_takes_the_models_context_when_it_is_told_how_much_memory(self):
        done = millrace("chat", self.model, "--kv-memory", "1MiB", "--temperature", "0", stdin="")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(ledger(done.stderr)[1], 512)

    def test_too_little_memory_is_one_sentence_with_the_numbers_before_anything_is_loaded(self):
        begun = time.monotonic()
        sentence = self.refused("run", self.model, "-p", "a", "--kv-memory", "500TiB")
        self.assertRegex(sentence, r"^weights of [\d.]+ \w+, plans and scratch of [\d.]+ \w+ and a KV cache of [\d.]+ \w+ for \d+ tokens take [\d.]+ \w+, "
                                   r"but [\d.]+ \w+ of [\d.]+ \w+ \((physical memory|the cgroup's limit)\) are free$")
        self.assertLess(time.monotonic() - begun, 20)
        self.assertRegex(self.refused("run", self.model, "-p", "a", "--kv-memory", "10B"), r"^10 B of KV memory hold no block: one of 32 tokens takes [\d.]+ KiB$")

    def test_a_pool_that_is_too_small_for_the_request_refuses_the_request(self):
        done = millrace("run", self.model, "-p", "a" * 400, "-n", "10", "--kv-memory", "100KiB")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"prompt of \d+ tokens plus 10 new ones exceeds the KV cache of \d+ tokens")

    def test_what_is_no_amount_is_wrong_use(self):
        for wrong in ("4G", "0%", "-1GiB", "much"):
            self.assertEqual(self.refused("run", self.model, "-p", "a", f"--kv-memory={wrong}", status=2),
                             f"--kv-memory: expected a size like 4GiB or a share like 30%, got '{wrong}'")
        self.assertIn("--kv-disk-size: expected a size like", self.refused("run", self.model, "-p", "a", "--kv-disk-size", "30%", status=2))

    def test_peak_memory_is_what_the_ledger_says(self):
        model = cache_folder() / MODEL_FILE
        if not model.exists() or os.environ.get("MILLRACE_SANITIZE"):
            self.skipTest("needs the default model and a build without sanitizers")
        child = subprocess.Popen([BIN, "run", model, "-p", "word " * 600, "-n", "8", "--kv-memory", "32MiB"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        text = child.stderr.read().decode()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 0, text)
        rows, _ = ledger(text)
        peak = usage.ru_maxrss * 1024
        print(f"peak {peak >> 20} MiB, ledger {int(rows['total']) >> 20} MiB, weights + KV {int(rows['weights'] + rows['KV cache']) >> 20} MiB")
        self.assertLessEqual(peak, rows["total"] + (1 << 20))  # the rows are rounded
        self.assertLessEqual(peak - rows["program"], 1.1 * (rows["weights"] + rows["KV cache"]))


class Disk(Case):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        MK.rnd(str(self.model), 3, None)
        self.tier = self.folder / "tier"

    def call(self, *more, prompt=PROMPT):
        return ("run", self.model, "-p", prompt, "-n", "12", "--json", *more)

    def answer(self, *more, **kinds):
        done = millrace(*self.call("--kv-disk", self.tier, *more, **kinds))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), done.stderr

    def test_a_restart_finds_its_prefixes_in_every_format(self):  # A16
        for kv in ("f16", "f32", "bf16", "int8"):
            plain = self.ok_json(*self.call("--kv", kv))
            self.assertEqual(plain["cache"]["cached"], 0)
            first, _ = self.answer("--kv", kv)
            self.assertEqual((first["cache"]["cached"], first["ids"]), (0, plain["ids"]))
            second, _ = self.answer("--kv", kv)
            whole = (second["prompt_tokens"] - 1) // 32 * 32
            self.assertGreaterEqual(whole, 256)
            self.assertEqual((second["cache"]["cached"], second["ids"]), (whole, plain["ids"]))
        longer, _ = self.answer("--kv", "f16", prompt=PROMPT + " and more")
        self.assertGreaterEqual(longer["cache"]["cached"], 256)
        self.assertEqual(longer["ids"], self.ok_json(*self.call(prompt=PROMPT + " and more"))["ids"])

    def test_another_model_finds_nothing(self):
        self.answer()
        MK.rnd(str(self.folder / "other"), 4, None)
        self.model = self.folder / "other"
        self.assertEqual(self.answer()[0]["cache"]["cached"], 0)

    def test_a_damaged_file_costs_one_line_and_no_answer(self):
        plain = self.answer()[0]
        for path in self.tier.iterdir():
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        answer, log = self.answer()
        self.assertEqual((answer["ids"], answer["cache"]["cached"]), (plain["ids"], 0))
        lines = [line for line in log.splitlines() if "is ignored" in line]
        self.assertEqual(len(lines), 1, log)
        self.assertIn("is damaged", lines[0])

    def test_the_folder_keeps_its_size(self):
        for i in range(4):
            self.answer("--kv-disk-size", "100kB", prompt=f"{i} {PROMPT}")
            self.assertLessEqual(sum(p.stat().st_size for p in self.tier.iterdir()), 100_000)
        self.assertGreater(len(list(self.tier.iterdir())), 0)

    def test_several_processes_at_one_folder(self):
        plain = self.ok_json(*self.call())["ids"]
        command = [BIN, *map(str, self.call("--kv-disk", self.tier))]
        for _ in range(3):
            children = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
            for child in children:
                out, err = child.communicate(timeout=120)
                self.assertEqual(child.returncode, 0, err)
                self.assertEqual(json.loads(out)["ids"], plain)
                self.assertNotIn("is ignored", err)
        self.assertGreaterEqual(self.answer()[0]["cache"]["cached"], 256)

    def test_a_folder_that_cannot_be_is_refused_before_loading(self):
        (self.folder / "file").write_text("x")
        done = millrace(*self.call("--kv-disk", self.folder / "file"))
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"millrace: cannot make the folder '{self.folder}/file': Not a directory", done.stderr)


if __name__ == "__main__":
    main()
