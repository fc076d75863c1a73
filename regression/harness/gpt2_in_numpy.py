"""A GPT-2 in a few lines of numpy, in double precision, from the files of Hugging Face alone."""

import json
import math
import struct

import numpy as np


def read_safetensors(path):
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    assert header.pop("__metadata__") == {"format": "pt"} and length % 8 == 0
    data, tensors, end = content[8 + length :], {}, 0
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        assert entry["dtype"] == "F32" and first == end, name
        values = np.frombuffer(data[first:last], "<f4").astype(np.float64)
        tensors[name], end = values.reshape(entry["shape"]), last
    assert end == len(data)
    return tensors


def gelu(x, name):
    if name == "gelu_new":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def gpt2_logits(config, tensors, tokens):
    """As the model of Hugging Face with these weights computes it."""

    def norm(x, name):
        centered = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((centered**2).mean(-1, keepdims=True) + config["layer_norm_epsilon"])
        return centered / deviation * tensors[name + ".weight"] + tensors[name + ".bias"]

    def linear(x, name):
        return x @ tensors[name + ".weight"] + tensors[name + ".bias"]

    def heads(x):
        return x.reshape(len(tokens), config["n_head"], -1).swapaxes(0, 1)

    def attention(x, name):
        q, k, v = map(heads, np.split(linear(x, name + ".c_attn"), 3, axis=-1))
        scores = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1])
        scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = weights / weights.sum(-1, keepdims=True) @ v
        return linear(mixed.swapaxes(0, 1).reshape(x.shape), name + ".c_proj")

    x = tensors["transformer.wte.weight"][tokens]
    x = x + tensors["transformer.wpe.weight"][: len(tokens)]
    for layer in range(config["n_layer"]):
        name = f"transformer.h.{layer}"
        x = x + attention(norm(x, name + ".ln_1"), name + ".attn")
        inner = linear(norm(x, name + ".ln_2"), name + ".mlp.c_fc")
        x = x + linear(gelu(inner, config["activation_function"]), name + ".mlp.c_proj")
    head = "transformer.wte" if config["tie_word_embeddings"] else "lm_head"
    return norm(x, "transformer.ln_f") @ tensors[head + ".weight"].T


def loss(config, tensors, tokens):
    logits = gpt2_logits(config, tensors, tokens[:-1])
    largest = logits.max(-1, keepdims=True)
    log_sums = np.log(np.exp(logits - largest).sum(-1)) + largest[:, 0]
    return float((log_sums - logits[np.arange(len(tokens) - 1), tokens[1:]]).mean())
