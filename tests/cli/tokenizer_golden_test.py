#!/usr/bin/env python3
"""Every text of the eight vocabularies and of the default model's, id by id."""
import json

from support import MODEL_FILE, Case, cache_folder, main, shared

FOLDER = shared("golden/tokenizers")
COUNT = 2368


def lines_of(path):
    """By line feeds alone: texts hold other line separators."""
    return path.read_bytes().decode().rstrip("\n").split("\n")


def texts_of(gguf):
    texts = []
    listed = gguf.with_suffix(".inp")
    if listed.exists():
        inputs = listed.read_bytes().decode().split("\n__ggml_vocab_test__\n")
        outputs = [[int(word) for word in line.split()] for line in gguf.with_suffix(".out").read_text().splitlines()]
        texts += zip(inputs, outputs)
    random = gguf.with_suffix(".fuzz.jsonl")
    if random.exists():
        texts += [(one["text"], one["ids"]) for one in map(json.loads, lines_of(random))]
    return texts


class Golden(Case):
    def compare(self, model, texts):
        stdin = "".join(json.dumps({"text": text}) + "\n" for text, _ in texts)
        got = [json.loads(line)["ids"] for line in self.ok("tokenize", model, "--jsonl", stdin=stdin).rstrip("\n").split("\n")]
        self.assertEqual(len(got), len(texts))
        for (text, want), ids in zip(texts, got):
            self.assertEqual(ids, want, f"{model}: {text!r}")
        return len(texts)

    def test_all_vocabularies(self):
        total = sum(self.compare(gguf, texts_of(gguf)) for gguf in sorted(FOLDER.glob("*.gguf")))
        self.assertEqual(total, COUNT)
        print(f"{total} texts equal")

    def test_the_default_model(self):
        model = cache_folder() / MODEL_FILE
        if not model.exists():
            self.skipTest(f"{model} is not there")
        lines = map(json.loads, lines_of(shared("golden/smollm2/tokenize.jsonl")))
        print(f"{self.compare(model, [(one['text'], one['ids']) for one in lines])} texts of smollm2 equal")


if __name__ == "__main__":
    main()
