"""Models whose answers are known before they run, as Hugging Face folders. Knows no server and no test.

A *scripted* model is a table: which token follows which, with which probability. Embeddings are one-hot, attention and MLP
add nothing, so row t of the head is ln p(. | t): every byte and every log-probability of an answer can be written down.
A *random* model has attention that matters. A *heavy* one takes milliseconds for a token, and nothing else is said of it.

The byte-level vocabulary: id is byte for 0..255, then merged pieces (257 `he`, 260 `hello`, 261 ` hello`, 266 ` world`,
270 `ST`, 271 `OP`, 273 an e with acute), 300 BOS, 301 EOS, 302 `<|im_start|>`, 303 `<|im_end|>`; `<mask>` (305) and
`<tail>` (306) are special, `<think>` (304) and `<tool>` (307) are added and ordinary; 309..319 are ids of the model that no text has.
"""
import array
import json
import math
import pathlib
import random
import struct
import sys

VOCAB = 320
CONTEXT = 512
BOS, EOS = 300, 301
NEVER = -30.0  # ln p of what does not follow

MERGED = ["  ", "he", "ll", "hell", "hello", " hello", "or", "wor", "ld", "world", " world", "\n\n", "'s", "'S", "ST", "OP", "12"]
HALVES = [(" ", " "), ("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), (" ", "hello"), ("o", "r"), ("w", "or"), ("l", "d"),
          ("wor", "ld"), (" ", "world"), ("\n", "\n"), ("'", "s"), ("'", "S"), ("S", "T"), ("O", "P"), ("1", "2")]
BYTE_PAIRS = [(0xC3, 0xA9), (0x8D, 0xE0), (0xB8, 0xE0), (0xA0, 0x62), (0x61, 0xC2)]
ADDED = {300: ("<|bos|>", True), 301: ("<|eos|>", True), 302: ("<|im_start|>", True), 303: ("<|im_end|>", True), 304: ("<think>", False),
         305: ("<mask>", True), 306: ("<tail>", True), 307: ("<tool>", False), 308: ("<tool>x", False)}
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
PIECES = ["ll", "he", "hell", "hello", "▁hello", "wo", "rl", "rld", "world", "▁world", "▁▁", "is", "▁is"]
PIECE_HALVES = [("l", "l"), ("h", "e"), ("he", "ll"), ("hell", "o"), ("▁", "hello"), ("w", "o"), ("r", "l"), ("rl", "d"), ("wo", "rld"),
                ("▁", "world"), ("▁", "▁"), ("i", "s"), ("▁", "is")]


def visible_bytes():
    """The letter that byte-level tokenizers write for each byte."""
    printable = set(range(33, 127)) | set(range(161, 173)) | set(range(174, 256))
    others = iter(range(256, 512))
    return [chr(b if b in printable else next(others)) for b in range(256)]


def added_tokens(tokens):
    return [{"id": i, "content": text, "single_word": False, "lstrip": i == 305, "rstrip": i == 306, "normalized": False, "special": special}
            for i, (text, special) in tokens.items()]


def bpe(vocabulary, merges, **more):
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
            "byte_fallback": False, "ignore_merges": False, "vocab": {text: i for i, text in enumerate(vocabulary)}, "merges": merges, **more}


def byte_tokenizer():
    letters = visible_bytes()
    seen = lambda text: "".join(letters[b] for b in text.encode())
    vocabulary = letters + [seen(text) for text in MERGED] + [letters[a] + letters[b] for a, b in BYTE_PAIRS]
    vocabulary += [f"<fill{i}>" for i in range(len(vocabulary), BOS)]
    merges = [f"{seen(a)} {seen(b)}" for a, b in HALVES] + [f"{letters[a]} {letters[b]}" for a, b in BYTE_PAIRS]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens(ADDED), "normalizer": {"type": "NFC"},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]}, "post_processor": byte_level, "decoder": byte_level,
            "model": bpe(vocabulary, merges)}


def piece_tokenizer():
    """As SentencePiece has it: a word carries its blank in front; 277 is ` hello`, 282 ` world`, 285 ` is`; BOS 1, EOS 2."""
    vocabulary = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + ["▁"] + list("helowrdTis.cé") + PIECES
    special = {0: ("<unk>", True), 1: ("<s>", True), 2: ("</s>", True)}
    first = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    part = lambda name, type_id: {"Sequence": {"id": name, "type_id": type_id}}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens(special),
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                                                               {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
            "pre_tokenizer": None,
            "post_processor": {"type": "TemplateProcessing", "single": [first, part("A", 0)], "pair": [first, part("A", 0), part("B", 1)],
                               "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
            "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                                                         {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": bpe(vocabulary, [f"{a} {b}" for a, b in PIECE_HALVES], unk_token="<unk>", fuse_unk=True, byte_fallback=True)}


def llama_tensors(width, inner, layers):
    """(name, shape) of every tensor, in the order in which the random models draw."""
    names = [("model.embed_tokens.weight", (VOCAB, width)), ("lm_head.weight", (VOCAB, width)), ("model.norm.weight", (width,))]
    for layer in range(layers):
        at = f"model.layers.{layer}."
        names += [(at + "input_layernorm.weight", (width,)), (at + "post_attention_layernorm.weight", (width,))]
        names += [(f"{at}self_attn.{which}_proj.weight", (width, width)) for which in "qkvo"]
        names += [(at + "mlp.gate_proj.weight", (inner, width)), (at + "mlp.up_proj.weight", (inner, width)), (at + "mlp.down_proj.weight", (width, inner))]
    return names


def write_folder(folder, tensors, config, pieces=False, template=CHATML, edit=None):
    """`edit`: {file name: {key: value, or None to remove it}}, or {file name: None} to leave the file out."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    bos, eos = (1, 2) if pieces else (BOS, EOS)
    ends = {"bos_token_id": bos, "eos_token_id": eos}
    files = {
        "config.json": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB, "max_position_embeddings": CONTEXT,
                        "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "float32",
                        **ends, **config},
        "generation_config.json": dict(ends),
        "tokenizer.json": piece_tokenizer() if pieces else byte_tokenizer(),
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>" if pieces else "<|bos|>",
                                  "eos_token": "</s>" if pieces else "<|eos|>", "clean_up_tokenization_spaces": False, "chat_template": template},
    }
    for name, changes in (edit or {}).items():
        if changes is None:
            del files[name]
            continue
        for key, value in changes.items():
            if value is None:
                files[name].pop(key, None)
            else:
                files[name][key] = value
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value))
    heads, at = {}, 0
    for name, shape, _ in tensors:
        size = 4 * math.prod(shape)
        heads[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    head = json.dumps(heads).encode()
    head += b" " * (-len(head) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for _, shape, values in tensors:
            if values is None:  # zeros, as a hole in the file
                file.seek(4 * math.prod(shape), 1)
            else:
                if sys.byteorder == "big":
                    values = array.array("f", values)
                    values.byteswap()
                values.tofile(file)
        file.truncate()
    return folder


def scripted(folder, chain, pieces=False, **more):
    """`chain`: {token: next token, or {next token: probability}}; who is not named is followed by EOS, or by chain["*"]."""
    width = VOCAB
    otherwise = chain.get("*", 2 if pieces else EOS)
    root = math.sqrt(width)
    head = array.array("f", [NEVER / root]) * (VOCAB * width)
    embedding = array.array("f", bytes(4 * VOCAB * width))
    for token in range(VOCAB):
        embedding[token * width + token] = 1.0
        after = chain.get(token, otherwise)
        for follower, p in (after.items() if isinstance(after, dict) else [(after, 1.0)]):
            head[follower * width + token] = math.log(p) / root
    tensors = []
    for name, shape in llama_tensors(width, 64, 1):
        values = {"model.embed_tokens.weight": embedding, "lm_head.weight": head}.get(name)
        if values is None:
            values = array.array("f", [1.0 if len(shape) == 1 else 0.0]) * math.prod(shape)
        tensors.append((name, shape, values))
    return write_folder(folder, tensors, {"hidden_size": width, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 5,
                                          "num_key_value_heads": 5, "head_dim": 64}, pieces, **more)


def random_model(folder, seed, key_bias=None, context=CONTEXT, **more):
    """Two layers of 64, drawn from `seed`. `key_bias`: a qwen2 whose fourth key channel has that bias."""
    draw = random.Random(seed)
    spread = {"embed_tokens": 1.0, "lm_head": 0.35, "self_attn": 0.25, "mlp": 0.2}
    tensors = []
    for name, shape in llama_tensors(64, 128, 2):
        if len(shape) == 1:
            values = array.array("f", [1.0]) * shape[0]
        else:
            sigma = next(s for part, s in spread.items() if part in name)
            values = array.array("f", (draw.gauss(0, sigma) for _ in range(math.prod(shape))))
        tensors.append((name, shape, values))
    config = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16,
              "max_position_embeddings": context}
    if key_bias is not None:
        config.update(architectures=["Qwen2ForCausalLM"], model_type="qwen2")
        for layer in range(2):
            for which in "qkv":
                values = array.array("f", [0.0]) * 64
                if which == "k":
                    values[3] = key_bias
                tensors.append((f"model.layers.{layer}.self_attn.{which}_proj.bias", (64,), values))
    return write_folder(folder, tensors, config, **more)


def heavy(folder, width=512, layers=6, context=4096, holes=False, **more):
    """As many weights as make a token take milliseconds: the same 4,099 values over and over. `holes`: all zeros, no bytes on the disk."""
    draw = random.Random(1)
    some = array.array("f", (draw.gauss(0, 0.04) for _ in range(4099)))
    tensors = []
    for name, shape in llama_tensors(width, 3 * width, layers):
        size = math.prod(shape)
        if len(shape) == 1:
            values = array.array("f", [1.0]) * size
        else:
            values = None if holes else (some * (size // len(some) + 1))[:size]
        tensors.append((name, shape, values))
    return write_folder(folder, tensors, {"hidden_size": width, "intermediate_size": 3 * width, "num_hidden_layers": layers, "num_attention_heads": width // 64,
                                          "num_key_value_heads": width // 64, "head_dim": 64, "max_position_embeddings": context}, **more)
