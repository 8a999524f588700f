#!/usr/bin/env python3
"""A Hugging Face folder of the same weights gives the same logits as the GGUF, for llama and qwen2.

The folder is written here, with the names and layouts of transformers: q and k of llama are stored there in halves, in
GGUF in pairs (docs/decisions/0002-rotary-pairs-are-halves.md)."""
import array
import json
import struct

from support import Case, floats, main, read_gguf, shared

FOLDER = shared("golden/logits")
LAYER = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
OUTER = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"}


def name_of(gguf_name):
    if gguf_name in OUTER:
        return OUTER[gguf_name]
    _, layer, kind, what = gguf_name.split(".")
    return f"model.layers.{layer}.{LAYER[kind]}.{what}"


def halves_from_pairs(values, heads, width):
    """Rows [heads, d/2, 2] become [heads, 2, d/2]."""
    rows = len(values) // width
    half = rows // heads // 2
    out = array.array("f")
    for head in range(heads):
        for part in range(2):
            for i in range(half):
                row = head * 2 * half + 2 * i + part
                out.extend(values[row * width:(row + 1) * width])
    return out


def write_folder(folder, gguf):
    meta, tensors = read_gguf(gguf)
    arch = meta["general.architecture"]
    key = lambda name: meta[f"{arch}.{name}"]
    heads, kv_heads = key("attention.head_count"), key("attention.head_count_kv")
    header, blob = {}, b""
    for name, (dims, kind, raw) in tensors.items():
        assert kind == 0, "f32 only"
        count = 1
        for d in dims:
            count *= d
        values = array.array("f", raw[:count * 4])
        for part, n in ((".attn_q.weight", heads), (".attn_k.weight", kv_heads)):
            if arch == "llama" and name.endswith(part):
                values = halves_from_pairs(values, n, dims[0])
        header[name_of(name)] = {"dtype": "F32", "shape": dims[::-1], "data_offsets": [len(blob), len(blob) + count * 4]}
        blob += values.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # data begins aligned, as the safetensors library writes it
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + blob)
    vocab = tensors["token_embd.weight"][0][1]
    config = {"architectures": [{"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}[arch]], "model_type": arch, "vocab_size": vocab,
              "hidden_size": key("embedding_length"), "intermediate_size": key("feed_forward_length"), "num_hidden_layers": key("block_count"),
              "num_attention_heads": heads, "num_key_value_heads": kv_heads, "max_position_embeddings": key("context_length"),
              "rms_norm_eps": key("attention.layer_norm_rms_epsilon"), "rope_theta": key("rope.freq_base"), "hidden_act": "silu",
              "head_dim": key("attention.key_length"), "tie_word_embeddings": "output.weight" not in tensors, "torch_dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(config))
    tokens = {("\u0100" if i == 0 else f"t{i}"): i for i in range(vocab)}
    tokenizer = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
                 "post_processor": None, "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": tokens, "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


class Folder(Case):
    def test_logits_equal_those_of_the_gguf(self):
        for name in ("tiny-llama-f32", "tiny-llama-mha-f32", "tiny-qwen2-f32"):
            folder = self.folder / name
            folder.mkdir()
            write_folder(folder, FOLDER / f"{name}.gguf")
            tokens = ",".join(map(str, json.loads((FOLDER / f"{name}.json").read_text())["tokens"]))
            outs = []
            for model in (folder, FOLDER / f"{name}.gguf"):
                outs.append(self.folder / f"{len(outs)}.f32")
                self.ok("logits", model, "--tokens", tokens, "--out", outs[-1])
            self.assertEqual(floats(outs[0]), floats(outs[1]), name)


if __name__ == "__main__":
    main()
