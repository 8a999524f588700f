#!/usr/bin/env python3
"""Kind 1 of the cases: broken model files are refused within 5 s and 300 MB, by one sentence that names the file."""
import json
import os
import resource
import shutil
import subprocess
import time

from support import BIN, Case, cases, main

MK = cases()
MEMORY_KB = 300 * 1024
SANITIZED = bool(os.environ.get("MILLRACE_SANITIZE"))  # its shadow memory counts as resident


class Rejects(Case):
    def reject(self, path, *names):
        start = time.monotonic()
        child = subprocess.Popen([BIN, "run", str(path), "-p", "a", "-n", "1"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = child.communicate(timeout=20)
        label = f"{path}: {child.returncode} {err.decode(errors='replace')}"
        self.assertLess(time.monotonic() - start, 5, label)
        self.assertEqual(child.returncode, 1, label)
        self.assertEqual(out, b"", label)
        self.assertEqual(len(err.splitlines()), 1, label)
        self.assertIn(str(path), err.decode(errors="replace"), label)
        for name in names:
            self.assertIn(name, err.decode(errors="replace"), label)
        if not SANITIZED:
            self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, MEMORY_KB, label)

    def reject_bytes(self, data, *names):
        path = self.folder / "bad.gguf"
        path.write_bytes(data)
        self.reject(path, *names)

    def reject_edited(self, change, *names):
        self.reject_bytes(MK.gguf(edit=change), *names)

    def test_o1_1_absurd_counts(self):
        for data in (b"GGUF", MK.G(nkv=1 << 60), MK.G(list(MK.base_kv().values()), nt=1 << 60), b""):
            self.reject_bytes(data)

    def test_o1_2_lengths_that_wrap(self):
        self.reject_bytes(b"GGUF" + MK.u32(3) + MK.u64(0) + MK.u64(1) + MK.u64(2**64 - 1) + b"a")
        self.reject_bytes(MK.G([MK.gs("general.name") + MK.u32(8) + MK.u64(2**63)]))
        self.reject_bytes(MK.G([MK.A("tokenizer.ggml.tokens", 8, 2**61, b"")]))
        self.reject_bytes(MK.G([MK.A("x", 10, 2**61 + 1, MK.u64(0))]))

    def test_o1_3_alignment(self):
        for value in (MK.U("general.alignment", 0), MK.U("general.alignment", 3), MK.kv("general.alignment", 5, MK.i32(-32))):
            self.reject_bytes(MK.G([value] + list(MK.base_kv().values()), [MK.ti("t", [1], 0, 0)], b"\0" * 64), "general.alignment")

    def test_o1_4_and_5_dimensions(self):
        keys = list(MK.base_kv().values())
        self.reject_bytes(MK.G(keys, [MK.ti("t", [5, 0], 0, 0)], b"\0" * 64))
        self.reject_bytes(MK.G(keys, [MK.ti("t", [2**63 - 1, 2], 24, 0)], b"\0" * 64))
        self.reject_bytes(MK.G(keys, [MK.ti("t", [2**64 - 1], 0, 0)], b"\0" * 64))
        self.reject_edited(lambda t: t.update({"token_embd.weight": ([320, 2**42 + 1], t["token_embd.weight"][1])}))

    def test_o1_6_cut_short_and_bad_offsets(self):
        self.reject_bytes(MK.gguf()[:-1000])
        for change in (lambda offset: 2**40, lambda offset: 2**64 - 32, lambda offset: offset + 1):
            self.reject_edited(lambda t: t.update({"output.weight": (t["output.weight"][0], change(t["output.weight"][1]))}), "output.weight")

    def test_o1_7_hyper_parameters(self):
        for key, value in (("block_count", lambda k: MK.S(k, "1")), ("block_count", lambda k: MK.U(k, 0)), ("block_count", lambda k: MK.U(k, 2**32 - 1)),
                           ("attention.head_count", lambda k: MK.U(k, 0)), ("attention.head_count_kv", lambda k: MK.U(k, 3)),
                           ("embedding_length", lambda k: MK.U(k, 2**31))):
            name = "llama." + key
            self.reject_bytes(MK.gguf(kvs={**MK.base_kv(), name: value(name)}), name)

    def hf_folder(self):
        folder = self.folder / "hf"
        shutil.rmtree(folder, ignore_errors=True)
        MK.hf(str(folder), MK.scripted({}, MK.EOS), MK.tok_bl(), MK.BOS, MK.EOS)
        return folder

    def test_o1_8_false_header_lengths(self):
        st = MK.ST
        for data in (st(b"{}", n=2**64 - 1), st(b"{}", n=3), st(b"{}", n=2**40), st(b"", n=0), b"\x02\0\0", st(b"[]"), st(b'{"a":'),
                     st(b'{"a":' + b"[" * 100000), st(b'{"a":1}')):
            folder = self.hf_folder()
            (folder / "model.safetensors").write_bytes(data)
            self.reject(folder)

    def test_o1_9_offsets_against_shape_and_dtype(self):
        for change in ({"data_offsets": [8, 4]}, {"data_offsets": [-4, 4]}, {"data_offsets": [0, 4]}, {"data_offsets": [0, 2**63]},
                       {"data_offsets": ["0", "4"]}, {"data_offsets": [0]}, {"shape": [-1, 320]}, {"shape": [2**33, 2**33]},
                       {"dtype": "F99"}, {"dtype": "F16"}):
            folder = self.hf_folder()
            data = (folder / "model.safetensors").read_bytes()
            n = int.from_bytes(data[:8], "little")
            header = json.loads(data[8:8 + n])
            header["lm_head.weight"].update(change)
            (folder / "model.safetensors").write_bytes(MK.ST(json.dumps(header).encode(), data[8 + n:]))
            self.reject(folder, "lm_head.weight")

    def test_o1_10_an_index_that_names_a_missing_shard(self):
        for shard in ("model-00002-of-00002.safetensors", "../x.safetensors"):
            folder = self.hf_folder()
            data = (folder / "model.safetensors").read_bytes()
            names = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
            first = "model-00001-of-00002.safetensors"
            (folder / "model.safetensors").rename(folder / first)
            weight_map = {name: first for name in names if name != "__metadata__"}
            weight_map["lm_head.weight"] = shard
            (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
            self.reject(folder, shard)
        folder = self.hf_folder()
        data = (folder / "model.safetensors").read_bytes()
        n = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + n])
        del header["model.norm.weight"]
        (folder / "model.safetensors").write_bytes(MK.ST(json.dumps(header).encode(), data[8 + n:]))
        self.reject(folder, "model.norm.weight")


if __name__ == "__main__":
    main()
